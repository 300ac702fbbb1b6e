//! A conntrack table without room: what is there goes on, what is new is dropped and counted, and
//! a sweep makes room of what is over or unanswered.

use shunt_datapath::Swept;

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict, resync, web},
};

const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);
const BACKEND: ([u8; 4], u16) = ([10, 1, 1, 3], 8080);

/// A node with room for so many entries.
fn node(entries: u32) -> Node {
    Node::with_conntrack(entries, [resync(&[&web(&[(3, 1)])]).as_str()])
}

/// A packet of the client with this port.
fn request(transport: Transport, port: u16) -> Packet {
    Packet::new(transport, ([10, 1, 1, 9], port), FRONTEND)
}

/// Opens a connection that nobody answers yet.
#[track_caller]
fn open(node: &mut Node, transport: Transport, port: u16) {
    let opening = request(transport, port);
    let sent = node.ingress(&opening.frame());
    assert_eq!(sent, Verdict::Pass(opening.to(BACKEND).frame()), "{port}");
}

/// One packet each way, of a connection that is there.
#[track_caller]
fn talk(node: &mut Node, transport: Transport, port: u16) {
    open(node, transport, port);
    let reply = request(transport, port).to(BACKEND).answer();
    let restored = Verdict::Pass(reply.from(FRONTEND).frame());
    assert_eq!(node.egress(&reply.frame()), restored, "{port}");
}

/// Opens a TCP connection from each of `ports`, and lets the backend answer.
fn establish(node: &mut Node, ports: impl Iterator<Item = u16>) {
    for port in ports {
        open(node, Transport::TcpSyn, port);
        talk(node, Transport::TcpAck, port);
    }
}

#[test]
fn a_full_table_drops_new_connections_and_keeps_those_that_are_there() {
    needs_root!();
    let mut node = node(64);
    establish(&mut node, 1..=8);
    for port in 101..=124 {
        open(&mut node, Transport::Udp, port);
    }
    for (transport, port) in [(Transport::TcpSyn, 9), (Transport::Udp, 125)] {
        let refused = request(transport, port).frame();
        assert_eq!(node.ingress(&refused), Verdict::Drop, "{transport:?}");
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), Some(&2));
    for port in 1..=8 {
        talk(&mut node, Transport::TcpAck, port);
    }
    for port in 101..=124 {
        talk(&mut node, Transport::Udp, port);
    }
    assert_eq!(node.connections().len(), 32);
    assert_eq!(node.counters().get("connection"), Some(&32));
}

#[test]
fn a_connection_that_finds_room_for_one_entry_leaves_it_free() {
    needs_root!();
    let mut node = node(63);
    for port in 101..=131 {
        open(&mut node, Transport::Udp, port);
    }
    for port in 132..=140 {
        let refused = request(Transport::Udp, port).frame();
        assert_eq!(node.ingress(&refused), Verdict::Drop);
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), Some(&9));
    let swept = node.pass(1);
    assert_eq!(swept.kept, 62, "31 connections, and no half of another");
}

#[test]
fn a_crowded_table_makes_room_of_the_oldest_flows_without_an_answer() {
    needs_root!();
    let mut node = node(64);
    establish(&mut node, 1..=8);
    for port in 101..=110 {
        open(&mut node, Transport::Udp, port);
    }
    node.pass(2);
    for port in 201..=210 {
        open(&mut node, Transport::Udp, port);
    }
    for port in 301..=304 {
        talk(&mut node, Transport::Udp, port);
    }
    let refused = request(Transport::Udp, 400).frame();
    assert_eq!(node.ingress(&refused), Verdict::Drop, "the table is full");

    let swept = node.pass(6);
    let expected = Swept {
        kept: 48,
        removed: 0,
        early_drops: 8,
    };
    assert_eq!(swept, expected, "three quarters stay");
    assert_eq!(node.early_drops(), 8);
    let left = node.connections();
    let of_ports = |first, last| {
        let ports = left.iter().map(|connection| connection.client.port());
        ports.filter(|port| (first..=last).contains(port)).count()
    };
    assert_eq!(of_ports(101, 110), 2, "those went first");
    assert_eq!(of_ports(201, 210), 10, "these are younger");
    assert_eq!(left.len(), 24, "both halves of each went");

    for port in 401..=408 {
        open(&mut node, Transport::Udp, port);
    }
    for port in 1..=8 {
        talk(&mut node, Transport::TcpAck, port);
    }
    for port in 301..=304 {
        talk(&mut node, Transport::Udp, port);
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), Some(&1));
    assert_eq!(
        node.counters().get("connection"),
        Some(&40),
        "32 before, 8 in the room that was made, and none that was there began anew"
    );
}

#[test]
fn what_is_over_makes_room_before_what_is_unanswered() {
    needs_root!();
    let mut node = node(64);
    for port in 101..=122 {
        open(&mut node, Transport::Udp, port);
    }
    node.pass(6);
    establish(&mut node, 1..=10);
    for port in 1..=10 {
        open(&mut node, Transport::TcpRst, port);
    }
    let swept = node.pass(0);
    assert_eq!((swept.kept, swept.early_drops), (48, 8));
    let tcp = node.connections();
    let tcp = tcp.iter().filter(|connection| connection.protocol == 6);
    assert_eq!(tcp.count(), 2, "of 10 that were reset");
}

#[test]
fn a_table_full_of_open_connections_keeps_all_of_them() {
    needs_root!();
    let mut node = node(64);
    establish(&mut node, 1..=32);
    let swept = node.pass(10_000);
    assert_eq!((swept.kept, swept.early_drops), (64, 0));
    let refused = request(Transport::TcpSyn, 33).frame();
    assert_eq!(node.ingress(&refused), Verdict::Drop);
    assert_eq!(node.counters().get("drop_conntrack_full"), Some(&1));
    for port in 1..=32 {
        talk(&mut node, Transport::TcpAck, port);
    }
    assert_eq!(node.counters().get("connection"), Some(&32));
}
