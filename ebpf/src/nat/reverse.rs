//! Reverse NAT: packets of a backend get back the frontend's address, and the client's own in
//! place of the one that hairpin or SNAT gave it.

use shunt_common::Tuple;

use crate::{
    maps::{
        addresses::is_own,
        constants::{REPLY_PORTS, redirects},
    },
    nat::{
        conntrack::{self, Find},
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// Puts the tuple that a packet of a backend goes on with into `translated`, where it comes in;
/// gives whether it is to be translated here.
///
/// It is, if it is for an address that a client was given in its own's place: a reply of a pod to
/// itself (hairpin), or of a backend on another node to a client outside (SNAT), or to this node from where it
/// sees another port than the host has (see [`crate::nat::masquerade`]). Replies to a
/// client that kept its own address are translated at the egress of that client's interface, or
/// here if they go to the client in one hop.
#[inline(always)]
pub(crate) fn at_ingress<F: Find>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    is_for_given_address(packet, translated) || redirects() && at_egress(packet, translated)
}

/// As [`at_ingress`], of a packet that goes out to a client.
#[inline(always)]
pub(crate) fn at_egress<F: Find>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    match conntrack::find(packet, Wanted::Reply) {
        Some(half) => take(packet, half, translated),
        None => false,
    }
}

/// The connection has the address that the client was given: this node's may have changed since.
#[inline(always)]
fn is_for_given_address<F: Find>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    if destination != F::hairpin_ip() && !REPLY_PORTS.load().contains(destination_port) {
        return false;
    }
    let Some(half) = conntrack::find(packet, Wanted::Reply) else {
        return false;
    };
    take(packet, half, translated)
        && (translated.destination != destination
            || translated.destination_port != destination_port
                && is_own::<F>(&destination)
                && conntrack::is_of_direct::<F>(half))
}

/// Puts the tuple that the packet goes on with into `translated`, unless it is of a connection that
/// is not ours.
#[inline(always)]
fn take<F: Find>(packet: &Packet<F>, half: Half, translated: &mut Tuple<F>) -> bool {
    !conntrack::is_mistaken(packet, &half) && conntrack::follow(packet, half, translated)
}
