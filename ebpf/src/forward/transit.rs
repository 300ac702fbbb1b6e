//! Forwarding to a next hop as a router does it, without the stack: FIB lookup, hop limit, MTU.
//!
//! What the stack alone can do is left to it, if it leads to where the programs see the packet
//! again.

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_BLACKHOLE, BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_FWD_DISABLED,
    BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_NOT_FWDED, BPF_FIB_LKUP_RET_PROHIBIT,
    BPF_FIB_LKUP_RET_SUCCESS, BPF_FIB_LKUP_RET_UNREACHABLE, bpf_fib_lookup as FibLookup,
    bpf_redir_neigh as NextHop, bpf_redir_neigh__bindgen_ty_1 as NextHopAddress,
};
use shunt_common::{Counter, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        fib::{self, Routed, longest_packet},
        origin, own, stack,
    },
    packet::{
        family::{Header, Options, hop_limit},
        link::Link,
        parsed::{Form, Packet},
    },
    rewrite::{icmp_error::IcmpError, network::decrement_hop_limit},
};

/// The way to a next hop.
pub(crate) struct Route {
    interface: u32,
    next_hop: NextHop,
}

/// Why the packet does not go on past the stack.
pub(crate) enum NoRoute {
    /// Its sender is to get an error.
    Told(IcmpError, Counter),
    /// Its sender gets none.
    Dropped,
    /// The stack sends it on.
    Stack,
    /// The stack reports to its sender that there is no route.
    StackTells,
}

/// Finds the way of the packet once it has the tuple `translated`.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Result<Route, NoRoute> {
    let network = packet.network.get();
    let dropped = |_| NoRoute::Dropped;
    if hop_limit::<F>(context, network).map_err(dropped)? <= 1 {
        return Err(NoRoute::Told(IcmpError::Expired, Counter::RejectExpired));
    }
    let length = longest_packet(context, packet.extent());
    // What every way has to take goes any way, as in `ip6_forward` of net/ipv6/ip6_output.c.
    let length = if length > F::LEAST_MTU { length } else { 1 };
    let (result, lookup) = fib::look_up(context, network, translated, length).map_err(dropped)?;
    // An error is about a packet, and as short as the ones that it is about are not.
    let is_error = packet.form == Form::Error;
    match result {
        BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => {
            let route = Route::from(lookup);
            let goes_by_stack = !is_error
                && stack::is_translated_behind(route.interface)
                && (result == BPF_FIB_LKUP_RET_NO_NEIGH
                    || packet.options != Options::Nothing
                    || !origin::may_come(context, network, &packet.tuple)
                        && !origin::is_let_through::<F>(&packet.tuple.source, context.interface()));
            if goes_by_stack {
                Err(NoRoute::Stack)
            } else {
                Ok(route)
            }
        }
        BPF_FIB_LKUP_RET_FRAG_NEEDED => {
            // SAFETY: the helper has put the MTU where the length was.
            let mtu = unsafe { lookup.__bindgen_anon_1.mtu_result }.max(F::LEAST_MTU);
            let may_be_fragmented = context
                .at::<F::Header>(network)
                .is_ok_and(Header::may_be_fragmented);
            if may_be_fragmented && !is_error && leads_behind(context, packet, translated) {
                return Err(NoRoute::Stack);
            }
            Err(NoRoute::Told(
                IcmpError::TooLong(mtu),
                Counter::RejectTooLong,
            ))
        }
        BPF_FIB_LKUP_RET_BLACKHOLE
        | BPF_FIB_LKUP_RET_UNREACHABLE
        | BPF_FIB_LKUP_RET_PROHIBIT
        | BPF_FIB_LKUP_RET_NOT_FWDED
        | BPF_FIB_LKUP_RET_FWD_DISABLED
            if !is_error =>
        {
            Err(NoRoute::StackTells)
        }
        _ => Err(NoRoute::Dropped),
    }
}

/// Returns whether the packet leaves the stack where its translation is completed. The kernel reports that a
/// packet is too long before it reports where it would go.
fn leads_behind<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> bool {
    fib::look_up(context, packet.network.get(), translated, 1)
        .is_ok_and(|(_, lookup)| stack::is_translated_behind(lookup.ifindex))
}

impl From<&FibLookup> for Route {
    #[inline(always)]
    fn from(lookup: &FibLookup) -> Self {
        Self {
            interface: lookup.ifindex,
            next_hop: NextHop {
                nh_family: lookup.family.into(),
                __bindgen_anon_1: NextHopAddress {
                    // SAFETY: four words of the union, whichever of them the family uses.
                    ipv6_nh: unsafe { lookup.__bindgen_anon_4.ipv6_dst },
                },
            },
        }
    }
}

impl Route {
    /// The way to a next hop behind `interface`.
    #[inline(always)]
    pub(crate) const fn to(interface: u32, next_hop: NextHop) -> Self {
        Self {
            interface,
            next_hop,
        }
    }

    /// Has the kernel send the packet this way, one hop older.
    #[inline(always)]
    pub(crate) fn take<F: Routed>(
        self,
        context: &impl Access,
        packet: &Packet<F>,
    ) -> Result<Verdict, AccessError> {
        decrement_hop_limit::<F>(context, packet.network.get())?;
        self.send(context, packet.link)
    }

    /// Has the kernel send the packet this way as it is.
    #[inline(always)]
    pub(crate) fn send(
        mut self,
        context: &impl Access,
        link: Link,
    ) -> Result<Verdict, AccessError> {
        own::mark(context);
        if link == Link::None {
            // The helper that sends the packet removes an Ethernet header, whatever stands there.
            context.insert_link(Link::Ethernet.header_length() as u32)?;
        }
        context.send_to_neighbour(self.interface, &mut self.next_hop)
    }
}
