//! Packets that come in addressed to an address that we gave a client in its own's place: the
//! answers of a pod to itself (hairpin) and of backends on other nodes to clients outside (SNAT).

use shunt_common::{ConntrackKey, Direction, Tuple};

use crate::{config, conntrack, family::Family, packet::Packet};

/// Puts the tuple that the packet is to leave with into `translated`; gives whether it is such an
/// answer.
///
/// The connection says which address it went on from: this node's may have changed since. An
/// answer to a client that kept its own address is not ours here, but at the egress of that
/// client's interface.
#[inline(always)]
pub fn find<F: Family>(packet: &Packet<F>, translated: &mut Tuple<F>) -> bool {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    if destination != F::hairpin_ip() && !config::SNAT_PORTS.load().contains(destination_port) {
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
    conntrack::note(entry, packet.says);
    true
}
