//! Packets that would go to and fro: what came from a router that takes this node for their way, and
//! that this node takes the router for.

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS, bpf_fib_lookup as FibLookup,
};
use shunt_common::Tuple;

use crate::{
    ctx::access::Access,
    forward::fib::{self, Routed},
    packet::parsed::Packet,
};

/// The way of a packet that leads back out of the interface where the packet came in.
#[derive(Clone, Copy)]
pub(crate) struct WayBack {
    next_hop: NextHop,
    /// True if the next hop is another machine than the destination.
    is_by_gateway: bool,
    /// True if the kernel knows the next hop's link address.
    is_neighbour_known: bool,
}

/// A next hop, as the kernel writes it over the destination: the family of its address, and the address.
#[derive(Clone, Copy, PartialEq, Eq)]
struct NextHop(u8, [u32; 4]);

/// Returns the way to the packet's destination if it leads back.
#[inline(always)]
pub(crate) fn way_back<F: Routed>(context: &impl Access, packet: &Packet<F>) -> Option<WayBack> {
    way_back_to(context, packet, &packet.tuple)
}

impl WayBack {
    /// Returns whether a machine behind the interface has the destination's address.
    #[inline(always)]
    pub(crate) const fn leads_to_machine(&self) -> bool {
        !self.is_by_gateway && self.is_neighbour_known
    }

    /// Returns whether the packet would go to and fro: its next hop is the router that leads to its source too, or
    /// its sender. By another router of the same link, or to a machine of it, a packet gets where it is to go.
    #[inline(always)]
    pub(crate) fn is_loop<F: Routed>(&self, context: &impl Access, packet: &Packet<F>) -> bool {
        self.is_by_gateway
            && way_back_to(context, packet, &packet.tuple.reversed())
                .is_some_and(|to_source| to_source.next_hop == self.next_hop)
    }
}

/// As [`way_back`], to the destination of this tuple.
#[inline(always)]
fn way_back_to<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    tuple: &Tuple<F>,
) -> Option<WayBack> {
    let (result, way) = fib::look_up(context, packet.network.get(), tuple, 1).ok()?;
    if !matches!(result, BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH)
        || way.ifindex != context.interface()
    {
        return None;
    }
    Some(WayBack {
        next_hop: NextHop::of(way),
        is_by_gateway: !F::leads_to(way, &tuple.destination),
        is_neighbour_known: result == BPF_FIB_LKUP_RET_SUCCESS,
    })
}

impl NextHop {
    #[inline(always)]
    const fn of(way: &FibLookup) -> Self {
        // SAFETY: words, of which an address of IPv4 is the first: the others are as they were before, zeros.
        Self(way.family, unsafe { way.__bindgen_anon_4.ipv6_dst })
    }
}
