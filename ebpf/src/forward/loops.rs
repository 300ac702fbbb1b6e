//! Packets that would go to and fro: what came from a router that takes this node for their way, and
//! that this node takes the router for.

use aya_ebpf::bindings::{BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS};

use crate::{
    ctx::access::Access,
    forward::fib::{self, Routed},
    packet::parsed::Packet,
};

/// Returns whether the packet's way leads out of the interface that it came in by.
#[inline(always)]
pub(crate) fn leads_back<F: Routed>(context: &impl Access, packet: &Packet<F>) -> bool {
    let found = fib::look_up(context, packet.network.get(), &packet.tuple, 1);
    matches!(
        found,
        Ok((BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH, way))
            if way.ifindex == context.interface()
    )
}
