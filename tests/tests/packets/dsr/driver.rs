//! The XDP program's part of it. The tests of both hooks show that it is the same as at TC.

use std::net::IpAddr;

use shunt_tests::{Ability, Taken, kernel_has};

use super::world::{OTHER_V4, OTHER_V6, envelope, in_both, node};
use crate::{
    address::PROBLEMS,
    both_families,
    frame::{Packet, SCTP_INIT, Transport, framed},
    hooks::Hooks,
    node::{Node, Verdict},
    reports::report,
    world::{Backends, Family},
};

/// Runs a test where there is the program.
fn with_program(test: impl Fn() + Send + Sync) {
    in_both(|| {
        if Hooks::of_this_thread() == Hooks::XdpAndTc {
            test();
        }
    });
}

both_families!(whole_packets_leave_from_the_driver_in_their_envelope(OTHER_V4; OTHER_V6) in with_program);
fn whole_packets_leave_from_the_driver_in_their_envelope<A: Family>(other: A)
where
    IpAddr: From<A>,
{
    let mut node = node(Backends::Elsewhere);
    let mut sent = 0;
    for transport in [
        Transport::TcpSyn,
        Transport::TcpAck,
        Transport::Udp,
        Transport::UdpUnsummed,
    ] {
        for frontend in [(A::EXTERNAL_IP, 80), (A::NODE, 30080)] {
            let packet = Packet::new(transport, (A::OUTSIDER, 40_000), frontend);
            let wrapped = envelope(A::NODE, other, &packet.forwarded().packet());
            // The bytes that a link puts behind a short packet go along, and the packet ends where it did.
            for trailer in [0, 6] {
                let [came, went] = [packet.frame(), wrapped.clone()].map(|mut frame| {
                    frame.resize(frame.len() + trailer, 0);
                    frame
                });
                assert_eq!(node.by_driver(&came), Some(Verdict::Redirect(went)));
                sent += 1;
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("wrapped", sent)]);
    assert!(node.connections().is_empty(), "it sees one direction");
}

/// Frames that pass the driver, and what of them TC counts.
fn left_to_tc<A: Family>() -> Vec<(Vec<u8>, &'static str)> {
    let packet = |transport| Packet::new(transport, (A::OUTSIDER, 40_000), (A::EXTERNAL_IP, 80));
    let udp = packet(Transport::Udp);
    let spent = Packet {
        time_to_live: 1,
        ..udp.clone()
    };
    let about = report(
        PROBLEMS[0],
        A::ROUTER,
        A::EXTERNAL_IP,
        64,
        &udp.answer().packet(),
    );
    let in_parts = udp.of_payload(200).fragments(7, 48);
    let mut frames: Vec<_> = in_parts
        .iter()
        .map(|part| (framed::<A>(part), "wrapped"))
        .collect();
    frames.extend([
        (packet(Transport::Sctp(SCTP_INIT)).frame(), "wrapped"),
        (framed::<A>(&about), "wrapped"),
        (udp.of_payload(1460).frame(), "reject_too_long"),
        (spent.frame(), "reject_expired"),
    ]);
    frames
}

both_families!(what_needs_more_than_an_envelope_is_left_to_tc in with_program);
fn what_needs_more_than_an_envelope_is_left_to_tc<A: Family>() {
    let mut node = node(Backends::Elsewhere);
    for (frame, counted) in left_to_tc::<A>() {
        let before = node.counters().get(counted).copied();
        // Past the driver, which would have sent it on.
        node.rejecting_ingress(&frame);
        assert_eq!(node.taken_by_driver(), 0, "{counted}");
        let after = node.counters().get(counted).copied();
        assert_eq!(after, Some(before.unwrap_or_default() + 1), "{counted}");
    }
}

/// Makes sure that the driver passes the packet, and counts nothing.
#[track_caller]
fn passes<A: Family>(node: &mut Node, packet: &Packet<A>) {
    assert_eq!(node.by_driver(&packet.frame()), None);
    assert!(node.counters().is_empty());
}

both_families!(packets_for_backends_here_and_of_clients_here_are_left_to_tc in with_program);
fn packets_for_backends_here_and_of_clients_here_are_left_to_tc<A: Family>() {
    let (mut here, mut elsewhere) = (node(Backends::Here), node(Backends::Elsewhere));
    for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
        let [outsider, pod] = [A::OUTSIDER, A::POD]
            .map(|client| Packet::new(transport, (client, 40_000), (A::EXTERNAL_IP, 80)));
        passes(&mut here, &outsider);
        passes(&mut elsewhere, &pod);
    }
}

both_families!(without_room_for_an_envelope_a_packet_is_left_to_tc(OTHER_V4, 20; OTHER_V6, 40) in with_program);
fn without_room_for_an_envelope_a_packet_is_left_to_tc<A: Family>(other: A, length: u32)
where
    IpAddr: From<A>,
{
    if !kernel_has(&[Ability::LongMetadata]) {
        return;
    }
    let packet = Packet::new(
        Transport::TcpAck,
        (A::OUTSIDER, 40_000),
        (A::EXTERNAL_IP, 80),
    );
    let came = packet.frame();
    let wrapped = envelope(A::NODE, other, &packet.forwarded().packet());
    let mut node = node(Backends::Elsewhere);
    for (room, taken) in [
        (length, Some(Taken::Sent(wrapped.clone()))),
        (length - 4, None),
        (0, None),
    ] {
        assert_eq!(node.by_driver_with_room(room, &came), taken, "{room}");
    }
    // Nothing is dropped, and TC finds the packet as it came.
    assert_eq!(node.past_driver(&came), Verdict::Redirect(wrapped));
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("wrapped", 2)]);
}
