//! Envelopes: an unchanged packet inside another one of its family, from node to node (RFC 2003, RFC 2473).

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS,
};
use shunt_common::{Counter, Sum, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        fib::{self, Routed, longest_packet},
        transit::{NoRoute, Route},
    },
    packet::parsed::Packet,
    rewrite::{
        icmp_error::IcmpError,
        network::{HeaderMut as _, decrement_hop_limit},
    },
};

/// Finds the way of the packet in an envelope with the addresses of `outer`.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    outer: &Tuple<F>,
) -> Result<Route, NoRoute> {
    let header = F::HEADER_LENGTH as u16;
    let length = longest_packet(context, packet.extent()).saturating_add(header);
    let Ok((result, lookup)) = fib::look_up_for_all(context, outer, length) else {
        return Err(NoRoute::Dropped);
    };
    match result {
        BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => Ok(Route::from(lookup)),
        BPF_FIB_LKUP_RET_FRAG_NEEDED => {
            // SAFETY: the helper has put the MTU where the length was.
            let mtu = unsafe { lookup.__bindgen_anon_1.mtu_result };
            Err(NoRoute::Told(
                IcmpError::TooLong(mtu.saturating_sub(header)),
                Counter::RejectTooLong,
            ))
        }
        _ => Err(NoRoute::Dropped),
    }
}

/// Puts the packet, one hop older, into an envelope with the addresses of `outer`, and sends it this way.
/// `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn send<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    outer: &Tuple<F>,
    route: Route,
) -> Result<Verdict, AccessError> {
    let network = packet.network.get();
    wrap(context, network, packet.end, outer)?;
    if !F::HAS_HEADER_CHECKSUM {
        let mut sum = Sum::default();
        for place in (0..F::HEADER_LENGTH).step_by(4) {
            sum = sum.with(*context.at::<u32>(network + place)?);
        }
        context.adjust_frame_sum(sum.fold());
    }
    route.send(context, packet.link)
}

/// Puts the packet from `network` to `end`, one hop older, into an envelope with the addresses of `outer`. A
/// sum over the frame, if there is one, does not follow. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn wrap<F: Routed>(
    context: &impl Access,
    network: usize,
    end: u32,
    outer: &Tuple<F>,
) -> Result<(), AccessError> {
    decrement_hop_limit::<F>(context, network)?;
    let class = context.at::<F::Header>(network)?.class();
    // What the frame has behind the packet's end goes along, and is nobody's.
    let length = end.saturating_sub(network as u32);
    context.wrap(F::HEADER_LENGTH as u32)?;
    context
        .at_mut::<F::Header>(network)?
        .set_envelope(class, length, outer);
    Ok(())
}
