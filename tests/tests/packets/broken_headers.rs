//! Packets whose IPv4 header does not have the checksum that it should have (RFC 1812 section 5.2.2).
//!
//! Linux drops each of them where it comes in (`ip_rcv_core` in net/ipv4/ip_input.c). The programs drop those
//! that the stack does not see as they came.

use shunt_datapath::Datapath;

use super::{
    dsr::world::dsr,
    frame::{OPENING, Packet, Transport, framed},
    needs_root,
    node::{Node, Verdict},
    test_run::Sum,
    world::{Backends, Family as _, V4, in_network, node, open_transit},
};

/// Offset of the checksum in a header.
const CHECKSUM: usize = 10;

/// The frame of a packet whose header's checksum is wrong in one bit.
fn broken(mut bytes: Vec<u8>, bit: usize) -> Vec<u8> {
    bytes[CHECKSUM + bit / 8] ^= 1 << (bit % 8);
    framed::<V4>(&bytes)
}

/// Headers of the shortest and of other lengths.
fn options() -> [Vec<u8>; 3] {
    [vec![], vec![1; 4], vec![1; 40]]
}

/// Makes sure that the packets of `node` were counted as broken, and that nothing else was.
#[track_caller]
fn assert_dropped(node: &Node, count: u64) {
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("drop_checksum", count)]);
    assert!(node.connections().is_empty());
}

#[test]
fn a_packet_with_a_broken_header_opens_no_connection() {
    needs_root!();
    in_network(|| {
        for backends in [Backends::Here, Backends::Elsewhere, Backends::Nowhere] {
            let mut node = node(backends);
            let mut dropped = 0;
            for options in options() {
                for (transport, frontend) in OPENING
                    .into_iter()
                    .chain([Transport::TcpAck])
                    .flat_map(|transport| V4::frontends().map(|frontend| (transport, frontend)))
                {
                    let packet = Packet {
                        options: options.clone(),
                        ..Packet::new(transport, (V4::OUTSIDER, 40_000), frontend)
                    };
                    for bit in 0..16 {
                        let frame = broken(packet.packet(), bit);
                        let verdict = node.ingress(&frame);
                        assert_eq!(verdict, Verdict::Drop, "{backends:?} {packet:?} {bit}");
                        dropped += 1;
                    }
                }
            }
            assert_dropped(&node, dropped);
        }
    });
}

#[test]
fn a_pod_with_a_broken_header_opens_no_connection_to_itself() {
    needs_root!();
    let mut node = node(Backends::Here);
    let request = Packet::new(Transport::Udp, (V4::LOCAL, 40_000), (V4::CLUSTER_IP, 80));
    let verdict = node.ingress(&broken(request.packet(), 3));
    assert_eq!(verdict, Verdict::Drop);
    assert_dropped(&node, 1);
    let at_pod = request.from((V4::HAIRPIN, 40_000)).to((V4::LOCAL, 8080));
    let there = node.ingress(&request.frame());
    assert_eq!(
        there,
        Verdict::Redirect(at_pod.forwarded().returned_frame())
    );
    for packet in [request, at_pod.answer()] {
        let verdict = node.ingress(&broken(packet.packet(), 3));
        assert_eq!(verdict, Verdict::Drop, "it would be handed on");
    }
    assert_eq!(node.counters()["drop_checksum"], 3);
}

#[test]
fn a_broken_header_is_not_handed_on_to_a_next_hop() {
    needs_root!();
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        for (port, transport) in (40_000..).zip(OPENING) {
            let first = Packet::new(transport, (V4::OUTSIDER, port), (V4::NODE, 30080));
            let at_backend = open_transit(&mut node, &first);
            let (request, answer) = match transport {
                Transport::TcpSyn => (first.with(Transport::TcpAck), at_backend.answer()),
                _ => (first.clone(), at_backend.answer()),
            };
            for packet in [request, answer] {
                for options in options() {
                    let packet = Packet {
                        options,
                        ..packet.clone()
                    };
                    for bit in 0..16 {
                        let frame = broken(packet.packet(), bit);
                        assert_eq!(node.ingress(&frame), Verdict::Drop, "{packet:?} {bit}");
                    }
                }
            }
        }
        assert_eq!(node.counters()["drop_checksum"], 2 * 2 * 3 * 16);
    });
}

#[test]
fn a_broken_header_of_a_known_connection_is_the_stacks_to_judge() {
    needs_root!();
    let mut node = node(Backends::Here);
    for (port, transport) in (40_000..).zip(OPENING) {
        let first = Packet::new(transport, (V4::POD, port), (V4::CLUSTER_IP, 80));
        node.ingress(&first.frame()).passed();
        let request = match transport {
            Transport::TcpSyn => first.with(Transport::TcpAck),
            _ => first,
        };
        for bit in 0..16 {
            let sent = node.ingress(&broken(request.packet(), bit)).passed();
            assert_eq!(sent[30..34], V4::LOCAL, "translated");
            let header: u32 = sent[14..34]
                .chunks(2)
                .map(|word| u32::from(u16::from_be_bytes([word[0], word[1]])))
                .sum();
            assert_ne!((header & 0xffff) + (header >> 16), 0xffff, "and as wrong");
        }
    }
    assert!(!node.counters().contains_key("drop_checksum"));
}

#[test]
fn a_broken_header_gets_into_no_envelope() {
    needs_root!();
    in_network(|| {
        let mut node = Node::new([dsr(Backends::Elsewhere).as_str()]);
        let mut dropped = 0;
        for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
            let packet = Packet::new(transport, (V4::OUTSIDER, 40_000), (V4::EXTERNAL_IP, 80));
            for bit in 0..16 {
                let verdict = node.ingress(&broken(packet.packet(), bit));
                assert_eq!(verdict, Verdict::Drop, "{transport:?} {bit}");
                dropped += 1;
            }
        }
        let packet = Packet::new(
            Transport::Udp,
            (V4::OUTSIDER, 40_000),
            (V4::EXTERNAL_IP, 80),
        );
        for part in packet.of_payload(200).fragments(7, 48) {
            assert_eq!(node.ingress(&broken(part.clone(), 5)), Verdict::Drop);
            dropped += 1;
            // What follows a first fragment follows it into an envelope.
            assert!(matches!(
                node.ingress(&framed::<V4>(&part)),
                Verdict::Redirect(_)
            ));
        }
        assert_eq!(node.counters()["drop_checksum"], dropped);
        assert!(node.connections().is_empty());
    });
}

#[test]
fn a_broken_header_out_of_an_envelope_opens_no_connection() {
    needs_root!();
    let mut node = Node::new([dsr(Backends::Here).as_str()]);
    let packet = Packet::new(
        Transport::Udp,
        (V4::OUTSIDER, 40_000),
        (V4::EXTERNAL_IP, 80),
    );
    let mut inner = packet.packet();
    inner[CHECKSUM] ^= 1;
    let frame = super::dsr::world::envelope(super::dsr::world::OTHER_V4, V4::NODE, &inner);
    let ran = node.run_in(Datapath::INGRESS, &frame, &[], Sum::Unknown);
    assert_eq!(ran.unwrap().0, Verdict::Drop);
    assert_eq!(node.counters()["drop_checksum"], 1);
    assert!(node.connections().is_empty());
}

#[test]
fn a_later_fragment_with_a_broken_header_is_not_handed_on() {
    needs_root!();
    in_network(|| {
        let mut node = node(Backends::Elsewhere);
        let packet = Packet::new(Transport::Udp, (V4::OUTSIDER, 40_000), (V4::NODE, 30080));
        for part in packet.of_payload(200).fragments(7, 48) {
            assert_eq!(node.ingress(&broken(part.clone(), 5)), Verdict::Drop);
            let sent = node.ingress(&framed::<V4>(&part));
            assert!(matches!(sent, Verdict::Redirect(_)), "{sent:?}");
        }
    });
}
