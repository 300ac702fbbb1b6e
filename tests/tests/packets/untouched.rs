//! Packets that are not ours pass byte for byte.

use super::{
    frame::{OPENING, Packet, Transport},
    needs_root,
    node::{Node, Verdict, resync, web},
};

const CLIENT: ([u8; 4], u16) = ([10, 1, 1, 9], 40000);
const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

fn node() -> Node {
    Node::new([resync(&[&web(&[(3, 1)])]).as_str()])
}

/// Both programs pass `frame` as it is.
#[track_caller]
fn assert_untouched(node: &mut Node, frame: &[u8], what: &str) {
    assert_eq!(
        node.ingress(frame),
        Verdict::Pass(frame.to_vec()),
        "ingress: {what}"
    );
    assert_eq!(
        node.egress(frame),
        Verdict::Pass(frame.to_vec()),
        "egress: {what}"
    );
}

#[test]
fn traffic_to_no_frontend_passes() {
    needs_root!();
    let mut node = node();
    for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
        for (target, what) in [
            (([10, 1, 1, 3], 8080), "a backend's own address"),
            (
                ([10, 96, 0, 1], 81),
                "a port that the service does not declare",
            ),
            (([10, 96, 0, 2], 80), "another address"),
        ] {
            let frame = Packet::new(transport, CLIENT, target).frame();
            assert_untouched(&mut node, &frame, what);
        }
    }
    assert!(node.counters().is_empty(), "{:?}", node.counters());
}

#[test]
fn other_protocols_to_a_frontends_address_pass() {
    needs_root!();
    let mut node = node();
    // ICMP, GRE, SCTP.
    for protocol in [1, 47, 132] {
        let mut frame = Packet::new(Transport::Udp, CLIENT, FRONTEND).frame();
        frame[23] = protocol;
        assert_untouched(&mut node, &frame, "not TCP, not UDP");
    }
}

#[test]
fn frames_without_ipv4_pass() {
    needs_root!();
    let mut node = node();
    // ARP, IPv6, a VLAN tag, a length instead of a type.
    for ethertype in [[8, 6], [0x86, 0xdd], [0x81, 0], [0, 46]] {
        let mut frame = Packet::new(Transport::Udp, CLIENT, FRONTEND).frame();
        frame[12..14].copy_from_slice(&ethertype);
        assert_untouched(&mut node, &frame, "not IPv4");
    }
    let mut frame = Packet::new(Transport::Udp, CLIENT, FRONTEND).frame();
    frame[14] = 0x65;
    assert_untouched(&mut node, &frame, "an IPv4 frame that says version 6");
}

#[test]
fn a_truncated_frame_passes_at_every_length() {
    needs_root!();
    let mut node = node();
    for transport in OPENING {
        let frame = Packet::new(transport, CLIENT, FRONTEND).frame();
        // The kernel's test run takes no IPv4 frame that lacks a whole IPv4 header.
        for length in 34..frame.len() {
            let whole = frame.len();
            assert_untouched(&mut node, &frame[..length], &format!("{length} of {whole}"));
        }
        assert_ne!(node.ingress(&frame).passed(), frame, "whole");
    }
    assert_eq!(node.counters()["connection"], 2);
}

#[test]
fn headers_beyond_the_packets_end_are_padding() {
    needs_root!();
    let mut node = node();
    for transport in OPENING {
        let headers = if transport == Transport::Udp { 28 } else { 40 };
        // A frame has at least 60 bytes, whatever its packet's length.
        let frame = Packet::new(transport, CLIENT, FRONTEND).frame();
        for length in 20..headers {
            let mut frame = frame.clone();
            frame[16..18].copy_from_slice(&u16::to_be_bytes(length));
            assert_untouched(&mut node, &frame, &format!("{length} bytes of IPv4"));
        }
    }
}

#[test]
fn an_impossible_header_length_passes() {
    needs_root!();
    let mut node = node();
    for words in 0..5 {
        let mut frame = Packet::new(Transport::Udp, CLIENT, FRONTEND).frame();
        frame[14] = 0x40 | words;
        assert_untouched(&mut node, &frame, "less than the fixed header");
    }
}
