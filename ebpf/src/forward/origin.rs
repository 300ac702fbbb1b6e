//! Whether a packet came in where packets to its source would go out: what `rp_filter` asks.
//!
//! A packet that did may be forwarded whatever the interface's setting is. Any other one is left to
//! the stack, which knows the setting, and the other routes that there are if the right one has
//! several next hops.

use aya_ebpf::{
    bindings::{BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS},
    helpers::bpf_ktime_get_coarse_ns,
};
use shunt_common::{Address as _, Tuple};

use crate::{
    ctx::access::Access,
    forward::fib::{self, Routed},
    maps::tables::ORIGINS,
};

/// For how long the way to a source is taken to be the same.
const LIFETIME_NS: u64 = 100_000_000;

/// Whether the packet with its network header at `network`, and with the tuple `came`, came in by the
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
    // SAFETY: the helper has no preconditions.
    let now = unsafe { bpf_ktime_get_coarse_ns() };
    let interface = context.interface();
    if origin.until <= now || origin.address != source || origin.interface != interface {
        origin.until = now + LIFETIME_NS;
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
