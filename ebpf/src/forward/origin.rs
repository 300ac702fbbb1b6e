//! Check that a packet came in where packets to its source would go out: what `rp_filter` checks.
//!
//! A packet that did may be forwarded whatever the interface's setting is. Any other one is left to
//! the stack, which knows the setting, and the other routes that there are if the right one has
//! several next hops.

use aya_ebpf::bindings::{BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS};
use shunt_common::{Address as _, Tuple};

use crate::{
    ctx::access::Access,
    forward::fib::{self, Routed},
    maps::{clock, tables::ORIGINS},
};

/// Returns whether the packet with its network header at `network`, and with the tuple `came`, came in by the
/// way to its source.
#[inline(never)]
pub(crate) fn is_on_way_back<F: Routed>(
    context: &impl Access,
    network: usize,
    came: &Tuple<F>,
) -> bool {
    // IPv6 knows no such filter.
    if !F::HAS_REVERSE_PATH_FILTER {
        return true;
    }
    let source = came.source;
    let Some(last) = source.words().last() else {
        return true;
    };
    let Some(origin) = F::origins().get_ptr_mut(u32::from_be(*last) % ORIGINS) else {
        return true;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let origin = unsafe { &mut *origin };
    let now = clock::kernel_ticks();
    let interface = context.interface();
    if origin.until <= now || origin.address != source || origin.interface != interface {
        origin.until = now + clock::way_lifetime();
        origin.address = source;
        origin.interface = interface;
        let found = fib::look_up(context, network, &came.reversed(), 1);
        let is_on_way = matches!(
            found,
            Ok((BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH, way))
                if way.ifindex == interface
        );
        origin.is_on_way = is_on_way.into();
    }
    origin.is_on_way != 0
}
