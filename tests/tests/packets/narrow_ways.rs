//! IPv6 ways that take less than every link has to (RFC 8200 section 5): no sender gets an error to send less.

use shunt_tests::run;

use super::{
    address::{Address as _, Problem},
    dsr::world::{OTHER_V6, dsr, envelope},
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict},
    reports::error,
    world::{Backends, Family as _, V6, in_network, node, seen},
};

/// The least that each IPv6 link takes.
const LEAST: usize = 1280;

/// Has the way there take so many bytes.
fn narrow(way: &str, mtu: usize) {
    let arguments = format!("-6 route replace {way} mtu lock {mtu}");
    run("ip", &arguments.split(' ').collect::<Vec<_>>()).unwrap();
}

/// A datagram of so many bytes, with its IPv6 header.
fn of_length(port: u16, to: (V6, u16), length: usize) -> Packet<V6> {
    let packet = Packet::new(Transport::Udp, (V6::OUTSIDER, port), to);
    packet.of_payload(length - V6::HEADER - 8)
}

/// As a backend elsewhere gets the packet through this node.
fn at_backend(packet: &Packet<V6>, verdict: &Verdict) -> Packet<V6> {
    let source = seen(verdict);
    assert_eq!(source.0, V6::NODE, "{packet:?}");
    packet.from(source).to((V6::REMOTE, 8080)).forwarded()
}

#[test]
fn what_an_envelope_would_leave_too_little_room_for_goes_on_from_this_node() {
    needs_root!();
    in_network(|| {
        let mut ports = 40_000..;
        for (mtu, is_wrapped) in [(LEAST, false), (1319, false), (1320, true), (1400, true)] {
            narrow("2001:db8:16::20 dev eth0", mtu);
            let mut node = Node::new([dsr(Backends::Elsewhere).as_str()]);
            for length in [100, 1200, LEAST] {
                let port = ports.next().unwrap();
                let packet = of_length(port, (V6::EXTERNAL_IP, 80), length);
                let verdict = node.ingress(&packet.frame());
                let expected = if is_wrapped {
                    envelope(V6::NODE, OTHER_V6, &packet.forwarded().packet())
                } else {
                    at_backend(&packet, &verdict).frame()
                };
                assert_eq!(verdict, Verdict::Redirect(expected), "{mtu} {length}");
            }
            // The sender of what is longer than any way has to take gets the size that this one takes.
            if is_wrapped {
                let port = ports.next().unwrap();
                let packet = of_length(port, (V6::EXTERNAL_IP, 80), mtu);
                let told = Problem::TooLong {
                    mtu: (mtu - 40) as u16,
                };
                let verdict = node.rejecting_ingress(&packet.frame());
                assert_eq!(verdict, Verdict::Redirect(error(&packet, told)), "{mtu}");
            }
        }
    });
}

#[test]
fn a_packet_in_transit_is_told_of_no_way_that_takes_less_than_every_link() {
    needs_root!();
    in_network(|| {
        narrow("fd00:10:1:2::/64 via 2001:db8:16::20", 1000);
        let mut node = node(Backends::Elsewhere);
        for (port, length) in (40_000..).zip([1000, 1001, LEAST]) {
            let packet = of_length(port, (V6::EXTERNAL_IP, 80), length);
            let verdict = node.ingress(&packet.frame());
            let expected = at_backend(&packet, &verdict).frame();
            assert_eq!(verdict, Verdict::Redirect(expected), "{length}");
        }
        let packet = of_length(50_000, (V6::EXTERNAL_IP, 80), LEAST + 1);
        let told = Problem::TooLong { mtu: LEAST as u16 };
        let verdict = node.rejecting_ingress(&packet.frame());
        assert_eq!(verdict, Verdict::Redirect(error(&packet, told)));
    });
}
