//! A conntrack table without room: what is over or unanswered gives way to what is new, and what is
//! established stays; then what is new is dropped and counted.

use std::collections::BTreeSet;

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
    answer(node, transport, port);
}

/// What the backend says.
#[track_caller]
fn answer(node: &mut Node, transport: Transport, port: u16) {
    let reply = request(transport, port)
        .to(BACKEND)
        .answer()
        .with(transport);
    let restored = Verdict::Pass(reply.from(FRONTEND).frame());
    assert_eq!(node.egress(&reply.frame()), restored, "{port}");
}

/// Opens a TCP connection from each of `ports`, and lets both sides acknowledge that.
fn establish(node: &mut Node, ports: impl Iterator<Item = u16>) {
    for port in ports {
        open(node, Transport::TcpSyn, port);
        answer(node, Transport::TcpSynAck, port);
        open(node, Transport::TcpAck, port);
    }
}

/// The client ports of the connections that are remembered.
fn ports(node: &Node) -> BTreeSet<u16> {
    let connections = node.connections();
    connections.iter().map(|one| one.client.port()).collect()
}

/// Fills a table with established connections, of as many clients' ports as find room.
fn fill(node: &mut Node) -> BTreeSet<u16> {
    let mut there = BTreeSet::new();
    for port in 1..=3000 {
        let syn = request(Transport::TcpSyn, port);
        if node.ingress(&syn.frame()) == Verdict::Drop {
            continue;
        }
        answer(node, Transport::TcpSynAck, port);
        open(node, Transport::TcpAck, port);
        there.insert(port);
    }
    there
}

#[test]
fn as_many_established_connections_as_were_asked_for_find_room() {
    needs_root!();
    let mut node = node(2000);
    establish(&mut node, 1..=1000);
    assert_eq!(node.connections().len(), 1000);
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    assert_eq!(node.early_drops(), 0);
}

#[test]
fn a_table_full_of_open_connections_keeps_all_of_them() {
    needs_root!();
    let mut node = node(64);
    let there = fill(&mut node);
    let refused = 3000 - there.len();
    assert!(there.len() >= 32 && refused > 2000, "{}", there.len());
    assert_eq!(node.pass(10_000), there.len());
    assert_eq!(
        node.counters().get("drop_conntrack_full"),
        Some(&(refused as u64))
    );
    assert_eq!(ports(&node), there, "and no half of another");
    for port in &there {
        talk(&mut node, Transport::TcpAck, *port);
    }
    let opened = node.counters()["connection"];
    assert_eq!(opened, there.len() as u64);
    assert_eq!(node.early_drops(), 0);
}

#[test]
fn unanswered_flows_give_way_to_new_ones_the_oldest_first() {
    needs_root!();
    let mut node = node(64);
    establish(&mut node, 1..=8);
    // More than find room, in two lots.
    for port in 1001..=1300 {
        open(&mut node, Transport::Udp, port);
    }
    node.pass(10);
    for port in 2001..=2040 {
        open(&mut node, Transport::Udp, port);
    }
    let left = ports(&node);
    assert!((1..=8).all(|port| left.contains(&port)), "{left:?}");
    let young = left.range(2001..=2040).count();
    assert_eq!(
        young, 40,
        "the young stay while there are old ones: {left:?}"
    );
    assert!(node.early_drops() >= 40, "{}", node.early_drops());
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    for port in 1..=8 {
        talk(&mut node, Transport::TcpAck, port);
    }
    assert_eq!(
        node.counters().get("connection"),
        Some(&348),
        "none that was open began anew"
    );
}

#[test]
fn half_open_connections_give_way() {
    needs_root!();
    let mut node = node(64);
    establish(&mut node, 1..=8);
    for port in 1001..=1500 {
        open(&mut node, Transport::TcpSyn, port);
        answer(&mut node, Transport::TcpSynAck, port);
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    let left = ports(&node);
    assert!((1..=8).all(|port| left.contains(&port)), "{left:?}");
}

#[test]
fn what_is_over_makes_room_before_what_is_unanswered() {
    needs_root!();
    let mut node = node(512);
    establish(&mut node, 1..=128);
    // Last: those that have just begun do not give way to each other while there is room farther off.
    for port in 1001..=1128 {
        open(&mut node, Transport::Udp, port);
    }
    for port in 1..=128 {
        open(&mut node, Transport::TcpFin, port);
        answer(&mut node, Transport::TcpFin, port);
    }
    let before = node.early_drops();
    establish(&mut node, 2001..=2064);
    assert_eq!(node.early_drops(), before, "what is over is no early drop");
    let left = ports(&node);
    let unanswered = left.range(1001..=1128).count();
    assert_eq!(unanswered, 128, "{left:?}");
}
