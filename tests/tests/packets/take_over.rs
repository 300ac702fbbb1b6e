//! Packets of connections that netfilter translates, while Shunt takes over.

use super::{
    frame::{Packet, SCTP_INIT, Transport, destination_of},
    needs_root,
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, node},
};

/// SCTP's chunk of data.
const SCTP_DATA: u8 = 0;

/// Packets that begin no connection.
const LATER: [Transport; 5] = [
    Transport::TcpAck,
    Transport::TcpFin,
    Transport::TcpRst,
    Transport::TcpSynAck,
    Transport::Sctp(SCTP_DATA),
];

fn leaves_alone<A: Family>(node: &mut Node, client: A) {
    for transport in LATER {
        for (port, frontend) in (40_000..).zip(A::frontends()) {
            let segment = Packet::new(transport, (client, port), frontend).frame();
            let sent = node.ingress(&segment);
            assert_eq!(sent, Verdict::Pass(segment), "{transport:?} {frontend:?}");
        }
    }
}

#[test]
fn what_begins_no_connection_goes_on_as_it_came() {
    needs_root!();
    let mut node = node(Backends::Here);
    node.leave_unknown(true);
    for _ in 0..2 {
        leaves_alone(&mut node, V4::POD);
        leaves_alone(&mut node, V4::OUTSIDER);
        leaves_alone(&mut node, V6::POD);
        leaves_alone(&mut node, V6::OUTSIDER);
    }
    assert_eq!(node.connections().len(), 0);
    assert_eq!(node.counters(), [].into());
}

#[test]
fn a_service_without_backends_does_not_reject_it() {
    needs_root!();
    let mut node = node(Backends::Nowhere);
    node.leave_unknown(true);
    leaves_alone(&mut node, V4::POD);
    leaves_alone(&mut node, V6::OUTSIDER);
}

#[test]
fn what_may_begin_a_connection_does() {
    needs_root!();
    let mut node = node(Backends::Here);
    node.leave_unknown(true);
    for (first, next) in [
        (Transport::TcpSyn, Transport::TcpAck),
        (Transport::Sctp(SCTP_INIT), Transport::Sctp(SCTP_DATA)),
        // A datagram does not show its owner.
        (Transport::Udp, Transport::Udp),
    ] {
        for (port, frontend) in (1000..).zip(V4::frontends()) {
            for transport in [first, next, next] {
                let packet = Packet::new(transport, (V4::POD, port), frontend);
                assert_eq!(
                    node.ingress(&packet.frame()),
                    Verdict::Pass(packet.to((V4::LOCAL, 8080)).frame()),
                    "{transport:?} of a connection of ours"
                );
            }
        }
    }
}

#[test]
fn when_it_is_over_an_unknown_segment_opens_a_connection() {
    needs_root!();
    let mut node = node(Backends::Here);
    node.leave_unknown(true);
    let segment = Packet::new(Transport::TcpAck, (V4::POD, 1000), (V4::CLUSTER_IP, 80));
    let untouched = Verdict::Pass(segment.frame());
    assert_eq!(node.ingress(&segment.frame()), untouched);
    node.leave_unknown(false);
    let sent = node.ingress(&segment.frame()).passed();
    assert_eq!(destination_of::<V4>(&sent), (V4::LOCAL, 8080));
}
