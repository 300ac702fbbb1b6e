//! One client's share of a table, and of the rejections, while there are too few for all.

use std::num::NonZeroU8;

use shunt_datapath::RejectLimit;

use super::{
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, cluster, node_with},
};

/// The entries of the table: 500 connections, if all are established.
const ENTRIES: u32 = 1000;

/// A node where a client has at most this percentage, with a table that is soon full.
fn node(share: u8) -> Node {
    Node::with(
        |options| {
            options.client_share = NonZeroU8::new(share);
            options.sizes.conntrack = ENTRIES;
        },
        [cluster(Backends::Here).as_str()],
    )
}

/// Establishes a connection to `frontend` from this port of the client. Returns false if its SYN is dropped.
fn connect<A: Family>(node: &mut Node, client: A, frontend: A, port: u16) -> bool {
    let request = |transport| Packet::new(transport, (client, port), (frontend, 80));
    if node.ingress(&request(Transport::TcpSyn).frame()) == Verdict::Drop {
        return false;
    }
    let reply = request(Transport::TcpSyn).to((A::LOCAL, 8080)).answer();
    node.egress(&reply.with(Transport::TcpSynAck).frame());
    node.ingress(&request(Transport::TcpAck).frame()).passed();
    true
}

/// Returns how many of so many connections of a pod are established.
fn by_pod<A: Family>(node: &mut Node, count: u16) -> usize {
    let mut connect = |port: &u16| connect::<A>(node, A::POD, A::CLUSTER_IP, *port);
    (1..=count).filter(|port| connect(port)).count()
}

/// The same for a client outside.
fn by_outsider<A: Family>(node: &mut Node, count: u16) -> usize {
    let mut connect = |port: &u16| connect::<A>(node, A::OUTSIDER, A::EXTERNAL_IP, *port);
    (1..=count).filter(|port| connect(port)).count()
}

both_families!(a_client_that_tries_for_all_places_leaves_room_for_others);
fn a_client_that_tries_for_all_places_leaves_room_for_others<A: Family>() {
    let mut node = node(50);
    let held = by_pod::<A>(&mut node, 3000);
    // Three quarters of as many as the table is for.
    assert!(held >= ENTRIES as usize / 2 * 3 / 4, "{held}");
    eprintln!("{held} connections of a client with a share");
    let refused = 3000 - held as u64;
    assert_eq!(node.counters().get("drop_client_share"), Some(&refused));
    assert_eq!(node.counters().get("drop_conntrack_full"), None);
    assert_eq!(by_outsider::<A>(&mut node, 50), 50);
    // Nothing of its own is given up.
    assert_eq!(node.connections().len(), held + 50);
    assert_eq!(node.early_drops(), 0);
}

both_families!(without_a_share_one_client_may_have_all_places);
fn without_a_share_one_client_may_have_all_places<A: Family>() {
    let mut node = node(0);
    by_pod::<A>(&mut node, 3000);
    assert_eq!(node.counters().get("drop_client_share"), None);
    assert!(by_outsider::<A>(&mut node, 50) < 50);
}

/// Returns the number of SYNs that are rejected of so many that the client sends at once.
fn rejected<A: Family>(node: &mut Node, client: A, count: u16) -> usize {
    let mut is_rejected = |port: &u16| {
        let packet = Packet::new(Transport::TcpSyn, (client, *port), (A::CLUSTER_IP, 80));
        node.rejecting_ingress(&packet.frame()) != Verdict::Drop
    };
    (1..=count).filter(|port| is_rejected(port)).count()
}

/// A node without backends that rejects 200 packets a second on average, and ten at once.
fn slow(share: u8) -> Node {
    node_with(
        |options| {
            options.client_share = NonZeroU8::new(share);
            options.rejects = RejectLimit { rate: 200 };
        },
        Backends::Nowhere,
    )
}

both_families!(a_client_that_is_rejected_often_leaves_rejections_for_others);
fn a_client_that_is_rejected_often_leaves_rejections_for_others<A: Family>() {
    // Of a burst of ten it has two.
    let mut node = slow(20);
    let of_pod = rejected::<A>(&mut node, A::POD, 200);
    assert!((2..=40).contains(&of_pod), "{of_pod}");
    assert_eq!(rejected::<A>(&mut node, A::OUTSIDER, 1), 1);
    assert!(node.counters()["drop_reject_rate"] >= 160);
}
