//! Reverse NAT: packets of a backend get back the frontend's address, and the client's own in
//! place of the one that hairpin or SNAT gave it.

use shunt_common::Tuple;

use crate::{
    maps::{
        addresses::is_any_own,
        constants::{REPLY_PORTS, redirects},
    },
    nat::{
        again::{self, Again},
        conntrack,
        own_flow::{self, OwnFlow},
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// Kind of a packet as an answer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reply {
    /// None, or one that is not translated here.
    None,
    /// One that is translated here.
    Translated,
    /// Of a connection of this node's own that goes on as it is, see [`crate::nat::own_flow`].
    Own,
    /// One that the client is not to have, see [`again::is_left`].
    Unwanted,
}

/// Puts the tuple that a packet of a backend goes on with into `translated`, where it comes in;
/// returns whether it is to be translated here.
///
/// It is, if it is for an address that a client was given in its own's place: a reply of a pod to
/// itself (hairpin), or of a backend on another node to a client outside (SNAT), or to this node from where it
/// sees another port than the host has (see [`crate::nat::masquerade`]). Replies to a
/// client that kept its own address are translated at the egress of that client's interface, or
/// here if they go to the client in one hop.
///
/// The connection has the address that the client was given: this node's may have changed since.
#[inline(always)]
pub(crate) fn at_ingress<F: Again + OwnFlow>(
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) -> Reply {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    let may_be_translated = redirects()
        || destination == F::hairpin_ip()
        || REPLY_PORTS.load().contains(destination_port);
    let is_any_own = is_any_own();
    if !may_be_translated && !is_any_own {
        return Reply::None;
    }
    let Some(half) = conntrack::find(packet, Wanted::Reply) else {
        return Reply::None;
    };
    if is_any_own && own_flow::is_answered_by(packet, &half) {
        return Reply::Own;
    }
    if !may_be_translated {
        return Reply::None;
    }
    let reply = take(packet, half, translated);
    if reply != Reply::Translated || redirects() {
        return reply;
    }
    let is_given = translated.destination != destination
        || translated.destination_port != destination_port
            && conntrack::ends_here::<F>(half, &destination);
    if is_given {
        Reply::Translated
    } else {
        Reply::None
    }
}

/// As [`at_ingress`], of a packet that goes out to a client.
#[inline(always)]
pub(crate) fn at_egress<F: Again>(packet: &Packet<F>, translated: &mut Tuple<F>) -> Reply {
    match conntrack::find(packet, Wanted::Reply) {
        Some(half) => take(packet, half, translated),
        None => Reply::None,
    }
}

/// Puts the tuple that the packet goes on with into `translated`, unless it is of a connection that
/// is not ours.
#[inline(always)]
fn take<F: Again>(packet: &Packet<F>, half: Half, translated: &mut Tuple<F>) -> Reply {
    if again::is_left(packet, &half) {
        Reply::Unwanted
    } else if !conntrack::is_mistaken(packet, &half) && conntrack::follow(packet, half, translated)
    {
        Reply::Translated
    } else {
        Reply::None
    }
}
