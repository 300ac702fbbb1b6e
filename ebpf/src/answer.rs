//! Packets that come in addressed to an address that we gave a client in its own's place: the
//! answers of a pod to itself (hairpin) and of backends on other nodes to clients outside (SNAT).

use shunt_common::{Direction, Tuple};

use crate::{config, conntrack, family::Family, packet::Packet};

/// The tuple that the packet is to leave with, if it is such an answer.
#[inline(always)]
pub fn find<F: Family>(packet: &Packet<F>) -> Option<Tuple<F>> {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    let may_be = destination == F::hairpin_ip()
        || config::SNAT_PORTS.load().contains(destination_port)
            && F::node()
                .get(0)
                .is_some_and(|node| node.snat == destination);
    if !may_be {
        return None;
    }
    conntrack::find(packet, Direction::Reply).map(|found| found.translated)
}
