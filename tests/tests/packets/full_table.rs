//! A conntrack table without room: what is over or unanswered gives way to what is new, and what is
//! established stays; then what is new is dropped and counted. In both families.

use std::collections::BTreeSet;

use shunt_datapath::DatapathOptions;

use super::{
    both_families,
    frame::{FIN_ACKED, Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, cluster},
};

/// A node with room for so many entries.
fn node(entries: u32) -> Node {
    Node::with_conntrack(entries, [cluster(Backends::Here).as_str()])
}

/// A packet of the client with this port.
fn request<A: Family>(transport: Transport, port: u16) -> Packet<A> {
    Packet::new(transport, (A::POD, port), (A::CLUSTER_IP, 80))
}

/// The same as its backend gets it.
fn at_backend<A: Family>(transport: Transport, port: u16) -> Packet<A> {
    request(transport, port).to((A::LOCAL, 8080))
}

/// Opens a connection that has no answer yet.
#[track_caller]
fn open<A: Family>(node: &mut Node, transport: Transport, port: u16) {
    let sent = node.ingress(&request::<A>(transport, port).frame());
    let expected = at_backend::<A>(transport, port).frame();
    assert_eq!(sent, Verdict::Pass(expected), "{port}");
}

/// One packet each way, of a connection that is there.
#[track_caller]
fn talk<A: Family>(node: &mut Node, transport: Transport, port: u16) {
    open::<A>(node, transport, port);
    answer::<A>(node, transport, port);
}

/// Checks the backend's answer.
#[track_caller]
fn answer<A: Family>(node: &mut Node, transport: Transport, port: u16) {
    let reply = at_backend::<A>(transport, port).answer().with(transport);
    let restored = Verdict::Pass(reply.from((A::CLUSTER_IP, 80)).frame());
    assert_eq!(node.egress(&reply.frame()), restored, "{port}");
}

/// Opens a TCP connection from each of `ports`, and lets both sides acknowledge that.
fn establish<A: Family>(node: &mut Node, ports: impl Iterator<Item = u16>) {
    for port in ports {
        open::<A>(node, Transport::TcpSyn, port);
        answer::<A>(node, Transport::TcpSynAck, port);
        open::<A>(node, Transport::TcpAck, port);
    }
}

/// The client ports of the connections that are remembered.
fn ports(node: &Node) -> BTreeSet<u16> {
    let connections = node.connections();
    connections.iter().map(|one| one.client.port()).collect()
}

/// Fills a table with established connections, of as many clients' ports as find room.
fn fill<A: Family>(node: &mut Node) -> BTreeSet<u16> {
    let mut there = BTreeSet::new();
    for port in 1..=3000 {
        let syn = request::<A>(Transport::TcpSyn, port);
        if node.ingress(&syn.frame()) == Verdict::Drop {
            continue;
        }
        answer::<A>(node, Transport::TcpSynAck, port);
        open::<A>(node, Transport::TcpAck, port);
        there.insert(port);
    }
    there
}

both_families!(as_many_established_connections_as_were_asked_for_find_room);
fn as_many_established_connections_as_were_asked_for_find_room<A: Family>() {
    let mut node = node(2000);
    establish::<A>(&mut node, 1..=1000);
    assert_eq!(node.connections().len(), 1000);
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    assert_eq!(node.early_drops(), 0);
}

both_families!(a_table_full_of_open_connections_keeps_all_of_them);
fn a_table_full_of_open_connections_keeps_all_of_them<A: Family>() {
    let mut node = node(64);
    let there = fill::<A>(&mut node);
    let refused = 3000 - there.len();
    assert!(there.len() >= 32 && refused > 2000, "{}", there.len());
    assert_eq!(node.pass(10_000), there.len());
    assert_eq!(
        node.counters().get("drop_conntrack_full"),
        Some(&(refused as u64))
    );
    assert_eq!(ports(&node), there, "and no half of another");
    for port in &there {
        talk::<A>(&mut node, Transport::TcpAck, *port);
    }
    let opened = node.counters()["connection"];
    assert_eq!(opened, there.len() as u64);
    assert_eq!(node.early_drops(), 0);
}

both_families!(unanswered_flows_give_way_to_new_ones_the_oldest_first);
fn unanswered_flows_give_way_to_new_ones_the_oldest_first<A: Family>() {
    let mut node = node(64);
    establish::<A>(&mut node, 1..=8);
    // More than find room, in two lots.
    for port in 1001..=1300 {
        open::<A>(&mut node, Transport::Udp, port);
    }
    node.pass(10);
    for port in 2001..=2040 {
        open::<A>(&mut node, Transport::Udp, port);
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
        talk::<A>(&mut node, Transport::TcpAck, port);
    }
    assert_eq!(
        node.counters().get("connection"),
        Some(&348),
        "none that was open began anew"
    );
}

both_families!(half_open_connections_give_way);
fn half_open_connections_give_way<A: Family>() {
    let mut node = node(64);
    establish::<A>(&mut node, 1..=8);
    for port in 1001..=1500 {
        open::<A>(&mut node, Transport::TcpSyn, port);
        answer::<A>(&mut node, Transport::TcpSynAck, port);
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    let left = ports(&node);
    assert!((1..=8).all(|port| left.contains(&port)), "{left:?}");
}

both_families!(half_open_connections_give_way_whatever_their_timeouts_are);
fn half_open_connections_give_way_whatever_their_timeouts_are<A: Family>() {
    let shorter = |options: &mut DatapathOptions| {
        options.sizes.conntrack = 64;
        options.timeouts.tcp_syn_sent = 10;
    };
    let mut node = Node::with(shorter, [cluster(Backends::Here).as_str()]);
    for port in 1001..=1200 {
        open::<A>(&mut node, Transport::TcpSyn, port);
        answer::<A>(&mut node, Transport::TcpSynAck, port);
    }
    // Longer than the one time, and shorter than the other.
    node.pass(20);
    for port in 2001..=2200 {
        open::<A>(&mut node, Transport::TcpSyn, port);
    }
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
}

both_families!(what_is_over_makes_room_before_what_is_unanswered);
fn what_is_over_makes_room_before_what_is_unanswered<A: Family>() {
    let mut node = node(512);
    establish::<A>(&mut node, 1..=128);
    // Last: those that have just begun do not give way to each other while there is room farther off.
    for port in 1001..=1128 {
        open::<A>(&mut node, Transport::Udp, port);
    }
    for port in 1..=128 {
        open::<A>(&mut node, Transport::TcpFin, port);
        answer::<A>(&mut node, Transport::TcpFinAcks(FIN_ACKED), port);
    }
    let before = node.early_drops();
    establish::<A>(&mut node, 2001..=2064);
    assert_eq!(node.early_drops(), before, "what is over is no early drop");
    let left = ports(&node);
    let unanswered = left.range(1001..=1128).count();
    assert_eq!(unanswered, 128, "{left:?}");
}
