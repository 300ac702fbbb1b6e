//! How long a connection is remembered.

use shunt_datapath::{Swept, Timeouts};

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict, resync, update, web},
};

const CLIENT: ([u8; 4], u16) = ([10, 1, 1, 9], 40000);
const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);
const BACKEND: ([u8; 4], u16) = ([10, 1, 1, 3], 8080);

/// Sends packets of one connection, each from the client or from the backend.
fn talk(node: &mut Node, packets: &[(bool, Transport)]) {
    for (from_client, transport) in packets {
        if *from_client {
            let request = Packet::new(*transport, CLIENT, FRONTEND);
            node.ingress(&request.frame()).passed();
        } else {
            let reply = Packet::new(*transport, BACKEND, CLIENT);
            let restored = Verdict::Pass(reply.from(FRONTEND).frame());
            assert_eq!(node.egress(&reply.frame()), restored);
        }
    }
}

#[test]
fn a_connection_is_forgotten_after_the_silence_of_its_state() {
    use Transport::{TcpAck, TcpFin, TcpRst, TcpSyn, Udp};

    needs_root!();
    let timeouts = Timeouts::default();
    let (client, backend) = (true, false);
    for (packets, timeout) in [
        (vec![(client, TcpSyn)], timeouts.tcp_new),
        (
            vec![(client, TcpSyn), (backend, TcpAck)],
            timeouts.tcp_established,
        ),
        (
            vec![(client, TcpSyn), (backend, TcpAck), (client, TcpFin)],
            timeouts.tcp_closing,
        ),
        (
            vec![(client, TcpSyn), (backend, TcpFin), (client, TcpAck)],
            timeouts.tcp_closing,
        ),
        (
            vec![
                (client, TcpSyn),
                (backend, TcpFin),
                (client, TcpFin),
                (backend, TcpAck),
            ],
            timeouts.tcp_closed,
        ),
        (
            vec![(client, TcpSyn), (backend, TcpRst)],
            timeouts.tcp_closed,
        ),
        (
            vec![(client, TcpSyn), (backend, TcpAck), (client, TcpRst)],
            timeouts.tcp_closed,
        ),
        (vec![(client, Udp)], timeouts.udp_unreplied),
        (vec![(client, Udp), (backend, Udp)], timeouts.udp_assured),
    ] {
        let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
        talk(&mut node, &packets);
        assert_eq!(
            node.pass(timeout),
            Swept {
                kept: 2,
                removed: 0,
                ..Swept::default()
            },
            "{packets:?}"
        );
        assert_eq!(
            node.pass(1),
            Swept {
                kept: 0,
                removed: 2,
                ..Swept::default()
            },
            "{packets:?}"
        );
        assert_eq!(node.pass(1), Swept::default(), "{packets:?}");
        let late = Packet::new(TcpAck, BACKEND, CLIENT).frame();
        assert_eq!(
            node.egress(&late),
            Verdict::Pass(late.clone()),
            "nobody's reply any more"
        );
    }
}

#[test]
fn a_packet_in_either_direction_keeps_both_entries() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    talk(
        &mut node,
        &[(true, Transport::Udp), (false, Transport::Udp)],
    );
    for from_client in [true, false, false, false, true, true, true] {
        let swept = node.pass(Timeouts::default().udp_assured);
        assert_eq!(
            swept,
            Swept {
                kept: 2,
                removed: 0,
                ..Swept::default()
            }
        );
        talk(&mut node, &[(from_client, Transport::Udp)]);
    }
}

#[test]
fn a_syn_after_the_end_of_a_connection_picks_again() {
    needs_root!();
    for end in [Transport::TcpFin, Transport::TcpRst] {
        let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
        let syn = Packet::new(Transport::TcpSyn, CLIENT, FRONTEND);
        node.ingress(&syn.frame()).passed();
        // The backend stays in the service, and gets nothing new.
        node.apply(&update(&web(&[(3, 0), (4, 1)])));
        let again = Verdict::Pass(syn.to(BACKEND).frame());
        assert_eq!(node.ingress(&syn.frame()), again, "the same SYN again");
        node.ingress(&syn.with(end).frame()).passed();
        let moved = syn.to(([10, 1, 1, 4], 8080));
        assert_eq!(
            node.ingress(&syn.frame()),
            Verdict::Pass(moved.frame()),
            "{end:?}"
        );
    }
}

#[test]
fn a_sweep_goes_through_a_large_table() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    for port in 1..=10_000 {
        let datagram = Packet::new(Transport::Udp, (CLIENT.0, port), FRONTEND);
        node.ingress(&datagram.frame()).passed();
    }
    assert_eq!(
        node.pass(1),
        Swept {
            kept: 20_000,
            removed: 0,
            ..Swept::default()
        }
    );
    assert_eq!(
        node.pass(30),
        Swept {
            kept: 0,
            removed: 20_000,
            ..Swept::default()
        }
    );
}
