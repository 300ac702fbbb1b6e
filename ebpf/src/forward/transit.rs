//! Forwarding to a next hop as a router does it, without the stack: FIB lookup, hop limit, MTU.

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS,
    bpf_redir_neigh as NextHop, bpf_redir_neigh__bindgen_ty_1 as NextHopAddress,
};
use shunt_common::{Counter, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::fib::{self, Routed, longest_packet},
    packet::{family::hop_limit, link::Link, parsed::Packet},
    rewrite::{icmp_error::IcmpError, network::decrement_hop_limit},
};

/// The way to a next hop.
pub(crate) struct Route {
    interface: u32,
    next_hop: NextHop,
}

/// Why there is no route, and what the packet's sender is to be told, if anything.
pub(crate) struct NoRoute {
    pub reason: Counter,
    pub tell: Option<IcmpError>,
}

/// Finds the way of the packet once it has the tuple `translated`.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Result<Route, NoRoute> {
    const UNKNOWN: NoRoute = NoRoute {
        reason: Counter::DropNoRoute,
        tell: None,
    };
    let network = packet.network.get();
    if hop_limit::<F>(context, network).map_err(|_| UNKNOWN)? <= 1 {
        return Err(NoRoute {
            reason: Counter::RejectExpired,
            tell: Some(IcmpError::Expired),
        });
    }
    let length = longest_packet(context, packet.extent());
    let (result, lookup) =
        fib::look_up(context, network, translated, length).map_err(|_| UNKNOWN)?;
    match result {
        // The helper that sends the packet asks for a neighbour that has no entry yet.
        BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => Ok(Route {
            interface: lookup.ifindex,
            next_hop: NextHop {
                nh_family: lookup.family.into(),
                __bindgen_anon_1: NextHopAddress {
                    // SAFETY: four words of the union, whichever of them the family uses.
                    ipv6_nh: unsafe { lookup.__bindgen_anon_4.ipv6_dst },
                },
            },
        }),
        BPF_FIB_LKUP_RET_FRAG_NEEDED => Err(NoRoute {
            reason: Counter::RejectTooLong,
            // SAFETY: the helper has put the MTU where the length was.
            tell: Some(IcmpError::TooLong(unsafe {
                lookup.__bindgen_anon_1.mtu_result
            })),
        }),
        _ => Err(UNKNOWN),
    }
}

impl Route {
    /// Has the kernel send the packet this way, one hop older.
    #[inline(always)]
    pub(crate) fn take<F: Routed>(
        mut self,
        context: &impl Access,
        packet: &Packet<F>,
    ) -> Result<Verdict, AccessError> {
        decrement_hop_limit::<F>(context, packet.network.get())?;
        if packet.link == Link::None {
            // The helper that sends the packet removes an Ethernet header, whatever stands there.
            context.insert_link(Link::Ethernet.header_length() as u32)?;
        }
        context.send_to_neighbour(self.interface, &mut self.next_hop)
    }
}
