//! A packet that read its frontend before a change and opens its connection after it, in both families.
//!
//! The tables are what such a packet sees: the cells of before the change, and all else of after it.

use aya::maps::{Array, Map, MapData};
use serde_json::{Value, json};

use super::{
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, cluster},
};

/// The cells of the family's frontends.
fn cells<A: Family>(node: &mut Node) -> Array<MapData, u64> {
    Array::try_from(Map::Array(node.table(A::MAPS.cells))).unwrap()
}

/// Has the service's backend replaced, and sends `late` as if it had read its frontend before.
fn send_during_change<A: Family>(node: &mut Node, change: &str, late: &Packet<A>) -> Verdict {
    let mut cells = cells::<A>(node);
    let read = |cells: &Array<_, u64>| -> Vec<u64> { cells.iter().map(Result::unwrap).collect() };
    let write = |cells: &mut Array<_, u64>, all: &[u64]| {
        for (index, cell) in (0..).zip(all) {
            cells.set(index, cell, 0).unwrap();
        }
    };
    let before = read(&cells);
    // A Resync would wait until no packet is left that read what was before.
    let change: Value = serde_json::from_str(change).unwrap();
    let change = json!({ "event": "UpdateService", "service": change["services"][0] });
    node.apply(&change.to_string());
    let after = read(&cells);
    write(&mut cells, &before);
    let verdict = node.ingress(&late.frame());
    write(&mut cells, &after);
    verdict
}

both_families!(a_flow_that_chose_a_backend_as_it_left_goes_on_with_another);
fn a_flow_that_chose_a_backend_as_it_left_goes_on_with_another<A: Family>() {
    let mut node = Node::new([cluster(Backends::Here).as_str()]);
    let datagram = Packet::new(Transport::Udp, (A::POD, 40_000), (A::CLUSTER_IP, 80));
    let late = send_during_change(&mut node, &cluster(Backends::MovedHere), &datagram);
    assert_eq!(late, Verdict::Pass(datagram.to((A::LOCAL, 8080)).frame()));
    let next = Verdict::Pass(datagram.to((A::LOCAL_TOO, 8080)).frame());
    assert_eq!(node.ingress(&datagram.frame()), next);
}

both_families!(a_client_that_got_a_backend_as_it_left_stays_with_another);
fn a_client_that_got_a_backend_as_it_left_stays_with_another<A: Family>() {
    let sticky = |backends| {
        cluster(backends).replace(r#""ports":"#, r#""session_affinity_timeout":60,"ports":"#)
    };
    let mut node = Node::new([sticky(Backends::Here).as_str()]);
    let syn = |port| Packet::new(Transport::TcpSyn, (A::POD, port), (A::CLUSTER_IP, 80));
    let first = syn(40_000);
    let late = send_during_change(&mut node, &sticky(Backends::MovedHere), &first);
    assert_eq!(late, Verdict::Pass(first.to((A::LOCAL, 8080)).frame()));
    let second = syn(40_001);
    let other = Verdict::Pass(second.to((A::LOCAL_TOO, 8080)).frame());
    assert_eq!(node.ingress(&second.frame()), other);
}
