//! Check of where a packet came in: what `rp_filter` checks (`fib_validate_source` of net/ipv4/fib_frontend.c).
//!
//! | `rp_filter` of the interface | sources of packets that may be forwarded past the stack |
//! |---|---|
//! | 0 | every other host's |
//! | 2 | those that a route leads to |
//! | 1 | those that packets to them would go out to by this interface |
//!
//! A packet from any other source is left to the stack, which knows more: its own addresses, and the other next hops of a
//! route that has several. Its verdict is remembered for a moment, for all packets of the source that come in there.

use aya_ebpf::bindings::{
    BPF_ANY, BPF_FIB_LKUP_RET_BLACKHOLE, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_PROHIBIT,
    BPF_FIB_LKUP_RET_SUCCESS, BPF_FIB_LKUP_RET_UNREACHABLE,
};
use shunt_common::{Address as _, InterfaceRole, Tuple};

use crate::{
    ctx::access::Access,
    forward::fib::{self, Routed},
    maps::{
        clock,
        tables::{INTERFACES, LET_THROUGH, ORIGINS},
    },
};

/// Returns whether a packet with its network header at `network`, and with the tuple `came`, may be forwarded past the
/// stack from where it came in. The answer is the same for all packets between two addresses.
#[inline(never)]
pub(crate) fn may_come<F: Routed>(context: &impl Access, network: usize, came: &Tuple<F>) -> bool {
    // IPv6 knows no such filter.
    if !F::HAS_REVERSE_PATH_FILTER {
        return true;
    }
    let [source, destination] = [&came.source, &came.destination].map(|address| {
        let word = address.words().last().copied();
        u32::from_be(word.unwrap_or_default())
    });
    let place = (source ^ destination.rotate_left(5)) % ORIGINS;
    let Some(origin) = F::origins().get_ptr_mut(place) else {
        return true;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let origin = unsafe { &mut *origin };
    let now = clock::kernel_ticks();
    let interface = context.interface();
    let is_known = origin.until > now
        && origin.address == came.source
        && origin.other == came.destination
        && origin.interface == interface;
    if !is_known {
        origin.until = now + clock::way_lifetime();
        origin.address = came.source;
        origin.other = came.destination;
        origin.interface = interface;
        origin.is_on_way = is_accepted(context, network, came, interface).into();
    }
    origin.is_on_way != 0
}

/// Returns whether the routes show that the stack would accept the packet.
#[inline(always)]
fn is_accepted<F: Routed>(
    context: &impl Access,
    network: usize,
    came: &Tuple<F>,
    interface: u32,
) -> bool {
    let Ok((result, way)) = fib::look_up_way_back(context, network, came) else {
        return false;
    };
    match result {
        BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => {
            way.ifindex == interface
                || has_role(InterfaceRole::unfiltered(interface))
                || has_role(InterfaceRole::loosely_filtered(interface))
        }
        BPF_FIB_LKUP_RET_BLACKHOLE | BPF_FIB_LKUP_RET_UNREACHABLE | BPF_FIB_LKUP_RET_PROHIBIT => {
            has_role(InterfaceRole::unfiltered(interface))
        }
        // There is no route, or the source is this node's own or a broadcast address.
        _ => false,
    }
}

#[inline(always)]
fn has_role(role: InterfaceRole) -> bool {
    // SAFETY: the value is not read.
    unsafe { INTERFACES.get(role) }.is_some()
}

/// Remembers that the stack has let a packet from `source` through that came in by `interface`.
#[inline(always)]
pub(crate) fn let_through<F: Routed>(source: &F::Address, interface: u32) {
    if let Some(key) = key::<F>(source, interface) {
        let until = clock::kernel_ticks() + clock::verdict_lifetime();
        // Without room the stack is asked again.
        let _ = LET_THROUGH.insert(key, until, BPF_ANY.into());
    }
}

/// Returns whether the stack has let packets from `source` through of late that came in by `interface`.
///
/// This is no answer for envelopes: all packets of a connection have to take one way, and it ends.
#[inline(never)]
pub(crate) fn is_let_through<F: Routed>(source: &F::Address, interface: u32) -> bool {
    let Some(key) = key::<F>(source, interface) else {
        return false;
    };
    // SAFETY: a word, which is read at once.
    unsafe { LET_THROUGH.get(key) }.is_some_and(|until| *until > clock::kernel_ticks())
}

/// The key of the stack's verdict; `None` of a family that the stack does not judge.
#[inline(always)]
fn key<F: Routed>(source: &F::Address, interface: u32) -> Option<[u32; 2]> {
    let word = source.words().first().copied()?;
    F::HAS_REVERSE_PATH_FILTER.then_some([word, interface])
}
