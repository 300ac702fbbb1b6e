//! Envelopes: an unchanged packet inside another one of its family, from node to node (RFC 2003, RFC 2473).

use aya_ebpf::bindings::{
    BPF_FIB_LKUP_RET_FRAG_NEEDED, BPF_FIB_LKUP_RET_NO_NEIGH, BPF_FIB_LKUP_RET_SUCCESS,
};
use shunt_common::{Address as _, Counter, Sum, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        fib::{self, Routed, longest_packet},
        origin, stack,
        transit::{NoRoute, Route},
    },
    maps::{addresses::dsr_sources, paths},
    packet::parsed::{Form, Packet},
    rewrite::{
        icmp_error::IcmpError,
        network::{HOPS, HeaderMut as _, decrement_hop_limit_of},
    },
};

/// The hop limit of envelopes in which a backend's node hands packets on. On no path do so many hops go by
/// that it is taken for a first node's, which is [`HOPS`].
const HANDED_ON_HOPS: u8 = 255;

/// Returns whether an envelope that comes in with this hop limit is one in which a packet was handed on.
#[inline(always)]
pub(crate) const fn is_handed_on(hops: u8) -> bool {
    hops > HANDED_ON_HOPS / 2
}

/// The node that puts a packet into an envelope.
#[derive(Clone, Copy)]
pub(crate) enum Wrapper {
    /// Its first node.
    FirstNode,
    /// The node of a backend that knows no connection of it.
    BackendsNode,
}

/// The least that the way of an envelope takes: what every packet of the family may be long, in an envelope.
#[inline(always)]
pub(crate) const fn least_mtu<F: Routed>() -> u16 {
    if F::LEAST_MTU == 0 {
        0
    } else {
        F::LEAST_MTU + F::HEADER_LENGTH as u16
    }
}

/// Finds the way of the packet in an envelope with the addresses of `outer`; `None` if that takes less than
/// [`least_mtu`], or if the stack has to judge where the packet came in, which it cannot of an envelope.
#[inline(always)]
pub(crate) fn find<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    outer: &Tuple<F>,
) -> Option<Result<Route, NoRoute>> {
    let header = F::HEADER_LENGTH as u16;
    let length = longest_packet(context, packet.extent()).saturating_add(header);
    let length = length.max(least_mtu::<F>());
    let mtu = paths::mtu_to::<F>(&outer.destination) as u16;
    if mtu != 0 && mtu < length {
        return too_long::<F>(mtu);
    }
    let Ok((result, lookup)) = fib::look_up_for_all(context, outer, length) else {
        return Some(Err(NoRoute::Dropped));
    };
    Some(match result {
        BPF_FIB_LKUP_RET_SUCCESS | BPF_FIB_LKUP_RET_NO_NEIGH => {
            let route = Route::from(lookup);
            // What was handed on has been judged by its first node.
            let is_judged = F::HAS_REVERSE_PATH_FILTER
                && packet.form != Form::Error
                && !packet.is_for_own
                && stack::is_translated_behind(lookup.ifindex);
            if is_judged && !origin::may_come(context, packet.network.get(), &packet.tuple) {
                return None;
            }
            Ok(route)
        }
        BPF_FIB_LKUP_RET_FRAG_NEEDED => {
            // SAFETY: the helper has put the MTU where the length was.
            let mtu = unsafe { lookup.__bindgen_anon_1.mtu_result };
            return too_long::<F>(mtu);
        }
        _ => Err(NoRoute::Dropped),
    })
}

/// Returns that the packet is too long for an envelope on a way with this MTU; `None` if that is below [`least_mtu`].
#[inline(always)]
fn too_long<F: Routed>(mtu: u16) -> Option<Result<Route, NoRoute>> {
    let room = mtu.saturating_sub(F::HEADER_LENGTH as u16);
    let told = NoRoute::Told(IcmpError::TooLong(room), Counter::RejectTooLong);
    (mtu >= least_mtu::<F>()).then_some(Err(told))
}

/// Puts the packet, one hop older, into an envelope with the addresses of `outer`, and sends it this way.
/// `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn send<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    outer: &Tuple<F>,
    (flow, wrapper): (Option<u32>, Wrapper),
    route: Route,
) -> Result<Verdict, AccessError> {
    let network = packet.network.get();
    // The bytes that the frame has behind the packet's end go along, without a meaning.
    let length = packet.end.saturating_sub(network as u32);
    context.wrap(F::HEADER_LENGTH as u32)?;
    fill(context, network, length, outer, (flow, wrapper))?;
    if !F::HAS_HEADER_CHECKSUM {
        let mut sum = Sum::default();
        for place in (0..F::HEADER_LENGTH).step_by(4) {
            sum = sum.with(*context.at::<u32>(network + place)?);
        }
        context.adjust_frame_sum(sum.fold());
    }
    route.send(context, packet.link)
}

/// Makes what is at `network`, before a packet of `length` bytes, an envelope with the addresses of `outer`,
/// and the packet one hop older. If there is a range for it, the source is one that shows the `flow`. A sum over
/// the frame, if there is one, does not follow. `Err` leaves a packet that must be dropped.
#[inline(always)]
pub(crate) fn fill<F: Routed>(
    context: &impl Access,
    network: usize,
    length: u32,
    outer: &Tuple<F>,
    (flow, wrapper): (Option<u32>, Wrapper),
) -> Result<(), AccessError> {
    let [envelope, packet] = context.at_mut::<[F::Header; 2]>(network)?;
    decrement_hop_limit_of::<F>(context, packet);
    let source = match (dsr_sources::<F>(), flow) {
        (Some(range), Some(flow)) => range.address.with_bits(&range.mask, flow),
        _ => outer.source,
    };
    let outer = Tuple { source, ..*outer };
    let hops = match wrapper {
        Wrapper::FirstNode => HOPS,
        Wrapper::BackendsNode => HANDED_ON_HOPS,
    };
    envelope.set_envelope(packet.class(), length, hops, &outer);
    Ok(())
}
