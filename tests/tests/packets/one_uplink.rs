//! A node with one uplink: what its driver sends on leaves by the interface that it came in by.

use std::net::IpAddr;

use nix::net::if_::if_nametoindex;
use shunt_tests::{NEXT_HOP, Taken};

use super::{
    both_families,
    dsr::world::{OTHER_V4, OTHER_V6, envelope, node as dsr_node},
    frame::{ETHERNET, Packet, Transport, ethernet, source_of},
    node::Node,
    reports::unreachable,
    world::{Backends, Family, UPLINK, node},
    xdp::with_program,
};

/// The index of the uplink.
fn uplink() -> u32 {
    if_nametoindex("eth0").unwrap()
}

/// A frame from this node to its next hop.
fn on_the_way<A: Family>(packet: &[u8]) -> Taken {
    Taken::Back(ethernet::<A>(UPLINK, NEXT_HOP, packet))
}

/// Returns the source that the backend sees, of a packet that leaves by the uplink that it came in by.
#[track_caller]
fn seen<A: Family>(node: &mut Node, packet: &Packet<A>) -> (A, u16) {
    match node.by_driver_of(uplink(), &packet.frame()) {
        Some(Taken::Back(frame)) => source_of(&frame),
        other => panic!("not sent back: {other:?}"),
    }
}

both_families!(a_flow_in_transit_leaves_by_the_uplink_that_it_came_in_by in with_program);
fn a_flow_in_transit_leaves_by_the_uplink_that_it_came_in_by<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    let uplink = uplink();
    for (port, (first, answers, goes_on)) in (40_000..).zip([
        (Transport::TcpSyn, Transport::TcpSynAck, Transport::TcpAck),
        (Transport::Udp, Transport::Udp, Transport::Udp),
    ]) {
        let first = Packet::new(first, (A::OUTSIDER, port), (A::NODE, 30080));
        let at_backend = first.from(seen(&mut node, &first));
        assert_eq!(at_backend.source.0, A::NODE);
        let at_backend = at_backend.to((A::REMOTE, 8080)).forwarded();
        let answer = at_backend.answer().with(answers);
        let restored = answer.from(first.destination).to(first.source).forwarded();
        let request = first.with(goes_on);
        let translated = at_backend.with(goes_on);
        for _ in 0..2 {
            for (came, went) in [(&answer, &restored), (&request, &translated)] {
                let taken = node.by_driver_of(uplink, &came.frame());
                assert_eq!(taken, Some(on_the_way::<A>(&went.packet())), "{came:?}");
            }
        }
        // By another one it is handed from driver to driver.
        let taken = node.by_driver_of(0, &request.frame());
        assert_eq!(taken, Some(Taken::Sent(translated.frame())));
    }
    let counters = node.counters();
    assert_eq!(counters["connection"], 2);
    assert_eq!((counters["request"], counters["reply"]), (8, 4));
}

both_families!(the_first_packet_is_translated_whole in with_program);
fn the_first_packet_is_translated_whole<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (port, transport) in
        (40_000..).zip([Transport::TcpSyn, Transport::Udp, Transport::UdpUnsummed])
    {
        let packet = Packet::new(transport, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
        let Some(Taken::Back(sent)) = node.by_driver_of(uplink(), &packet.frame()) else {
            panic!("{transport:?} is not sent back");
        };
        let at_backend = packet
            .from(source_of(&sent))
            .to((A::REMOTE, 8080))
            .forwarded();
        assert_eq!(Taken::Back(sent), on_the_way::<A>(&at_backend.packet()));
    }
}

both_families!(an_envelope_leaves_by_the_uplink_that_its_packet_came_in_by(OTHER_V4; OTHER_V6) in with_program);
fn an_envelope_leaves_by_the_uplink_that_its_packet_came_in_by<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = dsr_node(Backends::Elsewhere);
    for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
        let packet = Packet::new(transport, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
        let wrapped = envelope(A::NODE, other, &packet.forwarded().packet());
        let taken = node.by_driver_of(uplink(), &packet.frame());
        assert_eq!(taken, Some(on_the_way::<A>(&wrapped[ETHERNET..])));
        let taken = node.by_driver_of(0, &packet.frame());
        assert_eq!(taken, Some(Taken::Sent(wrapped)));
    }
}

both_families!(who_is_rejected_is_told_by_the_interface_that_it_came_by in with_program);
fn who_is_rejected_is_told_by_the_interface_that_it_came_by<A: Family>() {
    let mut node = node(Backends::Nowhere);
    for interface in [0, uplink()] {
        let packet = Packet::new(Transport::Udp, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
        let taken = node.by_driver_of(interface, &packet.frame());
        assert_eq!(taken, Some(Taken::Back(unreachable(&packet))));
    }
}
