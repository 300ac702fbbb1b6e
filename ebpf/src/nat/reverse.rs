//! Reverse NAT: packets of a backend get back the frontend's address, and the client's own in
//! place of the one that hairpin or SNAT gave it.

use shunt_common::{ConntrackKey, Direction, Tuple};

use crate::{
    maps::{
        constants::{SNAT_PORTS, redirects},
        tables::Tables,
    },
    nat::conntrack,
    packet::parsed::Packet,
};

/// Puts the tuple that a packet of a backend goes on with into `translated`, where it comes in;
/// gives whether it is to be translated here.
///
/// It is, if it is for an address that a client was given in its own's place: a reply of a pod to
/// itself (hairpin), or of a backend on another node to a client outside (SNAT). Replies to a
/// client that kept its own address are translated at the egress of that client's interface, or
/// here if they go to the client in one hop.
#[inline(always)]
pub(crate) fn at_ingress<F: Tables>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    is_for_given_address(packet, translated) || redirects() && at_egress(packet, translated)
}

/// As [`at_ingress`], of a packet that goes out to a client.
#[inline(always)]
pub(crate) fn at_egress<F: Tables>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    conntrack::find(packet, Direction::Reply)
        .map(|found| *translated = found.entry.translated)
        .is_some()
}

/// The connection's entry has the address that the client was given: this node's may have changed
/// since.
#[inline(always)]
fn is_for_given_address<F: Tables>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    if destination != F::hairpin_ip() && !SNAT_PORTS.load().contains(destination_port) {
        return false;
    }
    let key = ConntrackKey::new(packet.tuple, packet.protocol, Direction::Reply);
    let Some(entry) = conntrack::entry(&key) else {
        return false;
    };
    if entry.translated.destination == destination {
        return false;
    }
    *translated = entry.translated;
    conntrack::update(entry, packet.flags);
    true
}
