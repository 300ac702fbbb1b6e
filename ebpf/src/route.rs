//! Forwarding as a router does it, without the stack: route, TTL, MTU, next hop.

use aya_ebpf::{
    bindings::{
        BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS,
        TC_ACT_REDIRECT, bpf_fib_lookup as FibLookup, bpf_redir_neigh as NextHop,
        bpf_redir_neigh__bindgen_ty_1 as NextHopAddress,
    },
    cty::c_long,
    helpers::{bpf_fib_lookup, bpf_redirect_neigh, bpf_skb_change_head},
    programs::TcContext,
};
use shunt_common::{Counter, Tuple};

use crate::{
    family::Family,
    frame::{Extent, Unreadable},
    icmp::IcmpError,
    maps::LOOKUPS,
    packet::{Link, Packet},
};

/// The way to a next hop.
pub struct Route {
    interface: u32,
    next_hop: NextHop,
}

/// Why there is none, and what its sender is to be told, if anything.
pub struct Refusal {
    pub reason: Counter,
    pub tell: Option<IcmpError>,
}

/// Finds the way of the packet once it has the tuple `translated`.
#[inline(always)]
pub fn find<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Result<Route, Refusal> {
    const NO_ROUTE: Refusal = Refusal {
        reason: Counter::DropNoRoute,
        tell: None,
    };
    if F::hop_limit(context, packet.network.get()).map_err(|_| NO_ROUTE)? <= 1 {
        return Err(Refusal {
            reason: Counter::RejectExpired,
            tell: Some(IcmpError::Expired),
        });
    }
    let network = packet.network.get();
    let length = longest_packet(context, packet.extent());
    let (answer, lookup) = ask(context, network, translated, length).map_err(|_| NO_ROUTE)?;
    match answer {
        // Whoever has no neighbour entry yet is asked for by the helper that sends the packet.
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
        BPF_FIB_LKUP_RET_FRAG_NEEDED => Err(Refusal {
            reason: Counter::RejectTooLong,
            // SAFETY: the helper has put the MTU where the length was.
            tell: Some(IcmpError::TooLong(unsafe {
                lookup.__bindgen_anon_1.mtu_result
            })),
        }),
        _ => Err(NO_ROUTE),
    }
}

/// Asks the kernel for the way of the packet with its network header at `network` once it has the
/// tuple `translated`, if it is `length` bytes long from there. Gives a `BPF_FIB_LKUP_RET_`, and what the
/// kernel has filled in.
#[inline(always)]
pub fn ask<F: Family>(
    context: &TcContext,
    network: usize,
    translated: &Tuple<F>,
    length: u16,
) -> Result<(u32, &'static FibLookup), Unreadable> {
    // Always there: the table has an entry for each CPU.
    let lookup = LOOKUPS.get_ptr_mut(0).ok_or(Unreadable::Foreign)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let lookup = unsafe { &mut *lookup };
    // SAFETY: words, bytes and unions of them.
    *lookup = unsafe { core::mem::zeroed() };
    F::route_key(context, network, translated, lookup)?;
    lookup.__bindgen_anon_1.tot_len = length;
    // SAFETY: the context is the kernel's.
    lookup.ifindex = unsafe { (*context.skb.skb).ifindex };
    // SAFETY: the helper gets the context and as many bytes as it is told.
    let answer = unsafe {
        bpf_fib_lookup(
            context.skb.skb.cast(),
            lookup,
            size_of::<FibLookup>() as i32,
            0,
        )
    };
    let answer = u32::try_from(answer).map_err(|_| Unreadable::Foreign)?;
    Ok((answer, lookup))
}

impl Route {
    /// Has the kernel send the packet this way, one hop older; the program has to end with
    /// [`crate::verdict::Verdict::REDIRECT`].
    #[inline(always)]
    pub fn take<F: Family>(
        mut self,
        context: &TcContext,
        packet: &Packet<F>,
    ) -> Result<(), Unreadable> {
        F::decrement_hop_limit(context, packet.network.get())?;
        if packet.link == Link::None {
            // The helper that sends the packet takes an Ethernet header off, whatever it says.
            let length = Link::Ethernet.header_length() as u32;
            // SAFETY: the context is the kernel's.
            if unsafe { bpf_skb_change_head(context.skb.skb, length, 0) } != 0 {
                return Err(Unreadable::Foreign);
            }
        }
        // SAFETY: the helper gets as many bytes as it is told.
        let redirected = unsafe {
            bpf_redirect_neigh(
                self.interface,
                &raw mut self.next_hop,
                size_of::<NextHop>() as i32,
                0,
            )
        };
        if redirected == c_long::from(TC_ACT_REDIRECT) {
            Ok(())
        } else {
            Err(Unreadable::Foreign)
        }
    }
}

/// The length of the longest packet that this one becomes on the wire, without its link's header:
/// its own, or that of a segment, if the kernel is still to cut it into segments.
#[inline(always)]
pub fn longest_packet(context: &TcContext, extent: Extent) -> u16 {
    let Extent { network, payload } = extent;
    // SAFETY: the context is the kernel's.
    let segment = unsafe { (*context.skb.skb).gso_size };
    let whole = if segment == 0 {
        context.len() as usize
    } else {
        payload + segment as usize
    };
    (whole - network) as u16
}
