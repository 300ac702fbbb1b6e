//! How long a connection is remembered.

use std::collections::BTreeSet;

use shunt_datapath::{
    ConntrackState::{
        Assured, Closed, Closing, Established, New, Replied, SynReceived, SynSent, TimeWait,
        Unreplied,
    },
    Timeouts,
};

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
    use Transport::{TcpAck, TcpFin, TcpRst, TcpSyn, TcpSynAck, Udp};

    needs_root!();
    let timeouts = Timeouts::default();
    let (client, backend) = (true, false);
    let open = [(client, TcpSyn), (backend, TcpSynAck), (client, TcpAck)];
    let then = |further: &[(bool, Transport)]| [open.as_slice(), further].concat();
    for (packets, state, timeout) in [
        (vec![(client, TcpSyn)], SynSent, timeouts.tcp_syn_sent),
        (
            vec![(client, TcpSyn), (backend, TcpSynAck)],
            SynReceived,
            timeouts.tcp_syn_recv,
        ),
        (vec![(client, TcpAck)], New, timeouts.tcp_new),
        (then(&[]), Established, timeouts.tcp_established),
        (
            vec![(client, TcpAck), (backend, TcpAck)],
            Established,
            timeouts.tcp_established,
        ),
        (then(&[(client, TcpFin)]), Closing, timeouts.tcp_closing),
        (
            then(&[(backend, TcpFin), (client, TcpAck)]),
            Closing,
            timeouts.tcp_closing,
        ),
        (
            then(&[(backend, TcpFin), (client, TcpFin), (backend, TcpAck)]),
            TimeWait,
            timeouts.tcp_time_wait,
        ),
        (
            vec![(client, TcpSyn), (backend, TcpRst)],
            Closed,
            timeouts.tcp_closed,
        ),
        (then(&[(client, TcpRst)]), Closed, timeouts.tcp_closed),
        (vec![(client, Udp)], Unreplied, timeouts.udp),
        (vec![(client, Udp), (backend, Udp)], Replied, timeouts.udp),
    ] {
        let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
        talk(&mut node, &packets);
        let states: Vec<_> = node.connections().iter().map(|one| one.state).collect();
        assert_eq!(states, [state], "{packets:?}");
        assert_eq!(node.pass(timeout - 1), 1, "{packets:?}");
        assert_eq!(node.pass(2), 0, "{packets:?}");
        if state != Closed {
            let late = Packet::new(TcpAck, BACKEND, CLIENT).frame();
            assert_eq!(
                node.egress(&late),
                Verdict::Pass(late.clone()),
                "nobody's reply any more"
            );
        }
    }
}

#[test]
fn a_flow_that_has_lasted_is_remembered_longer() {
    needs_root!();
    let timeouts = Timeouts::default();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let exchange = [(true, Transport::Udp), (false, Transport::Udp)];
    talk(&mut node, &exchange);
    node.pass(3);
    talk(&mut node, &exchange);
    assert_eq!(node.connections()[0].state, Assured);
    assert_eq!(node.pass(timeouts.udp_stream - 1), 1);
    assert_eq!(node.pass(2), 0);
}

#[test]
fn a_packet_in_either_direction_keeps_both_entries() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let exchange = [(true, Transport::Udp), (false, Transport::Udp)];
    talk(&mut node, &exchange);
    node.pass(3);
    talk(&mut node, &exchange);
    for from_client in [true, false, false, false, true, true, true] {
        assert_eq!(node.pass(Timeouts::default().udp_stream - 1), 1);
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
fn a_large_table_is_listed_whole() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    for port in 1..=10_000 {
        let datagram = Packet::new(Transport::Udp, (CLIENT.0, port), FRONTEND);
        node.ingress(&datagram.frame()).passed();
    }
    let connections = node.connections();
    let ports: BTreeSet<u16> = connections.iter().map(|one| one.client.port()).collect();
    assert_eq!((connections.len(), ports.len()), (10_000, 10_000));
    assert_eq!(node.pass(31), 0);
}
