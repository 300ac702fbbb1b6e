//! Packets for frontends in mode dsr: to a backend elsewhere they go on in an envelope from here.
//!
//! The choice and the envelope are those of the TC program, see [`crate::pipeline::dsr`].

use shunt_common::{Address as _, Cell, Counter, Tuple};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        admission::check_source,
        envelope,
        fib::Routed,
        next_hop::{self, WayIndex},
    },
    lb::maglev::Maglev,
    maps::{
        scratch::Arrival,
        services::{count_translated, drop_refused},
    },
    packet::{link::Link, parsed::Packet},
    pipeline::dsr,
};

/// What becomes of a packet for a frontend in mode dsr.
pub(crate) enum Dispatch {
    Verdict(Verdict),
    /// It goes this way, in an envelope.
    Wraps(WayIndex),
    /// As if its frontend were in no such mode.
    AsEver,
}

/// Decides about the packet, which is for the frontend with this cell. If it goes on in an envelope,
/// `outer` gets the addresses of that.
#[inline(always)]
pub(crate) fn judge<F: Routed + Maglev>(
    context: &impl Access,
    packet: &mut Packet<F>,
    cell: Cell,
    outer: &mut Tuple<F>,
) -> Dispatch {
    let passes = Dispatch::Verdict(Verdict::PASS);
    let Some(node) = dsr::find_node(packet, cell) else {
        // Without a connection, in the middle of one: the TC program knows what becomes of it.
        return if packet.is_for_own || !packet.may_be_first {
            passes
        } else {
            Dispatch::AsEver
        };
    };
    if let Err(verdict) = check_source(context, packet) {
        return Dispatch::Verdict(verdict);
    }
    match F::node().get(0) {
        Some(own) if !own.snat.is_unspecified() => outer.source = own.snat,
        _ => return passes,
    }
    outer.destination = node;
    match next_hop::find_for_envelope(context, packet.extent(), outer) {
        Some(way) => Dispatch::Wraps(way),
        None => passes,
    }
}

/// Puts the packet that was read into its envelope, and sends it this way.
#[inline(always)]
pub(crate) fn wrap<F: Routed>(
    context: &impl Access,
    arrival: &Arrival<F>,
    way: WayIndex,
) -> Verdict {
    let Arrival { packet, translated } = arrival;
    let begin = Link::Ethernet.header_length();
    let sent = envelope::wrap(context, begin, packet.end, translated)
        .and_then(|()| way.take::<F>(context));
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    count_translated(packet, Counter::Wrapped);
    verdict
}
