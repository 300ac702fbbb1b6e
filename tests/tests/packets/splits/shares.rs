//! Numbers of connections of each service, before and after a change of the weights.

use std::collections::BTreeMap;

use super::world::{
    CLUSTER_IP, NEW, assert_share, backend_of, canary, chosen, node, split, splitting, tell,
    weighing,
};
use crate::{
    frame::{Packet, Transport},
    needs_root,
    node::Node,
};

/// Connections from ten clients, the first of which is 10.1.1.`first`, and the backend that each has.
const CONNECTIONS: u32 = 100_000;

fn clients(first: u8) -> impl Iterator<Item = ([u8; 4], u16)> {
    (first..first + 10).flat_map(|last| (1000..11_000).map(move |port| ([10, 1, 1, last], port)))
}

/// Opens them all, and returns how many each backend has; `None`: refused.
fn open(node: &mut Node, first: u8) -> BTreeMap<Option<u8>, u32> {
    let mut spread = BTreeMap::new();
    for client in clients(first) {
        let backend = chosen(node, Transport::TcpSyn, client);
        *spread.entry(backend).or_default() += 1;
    }
    spread
}

/// The shares must be these of the endpoints 10.1.1.3 and .4 of `web`, and .7 of `web-canary`.
#[track_caller]
fn assert_shares(spread: &BTreeMap<Option<u8>, u32>, shares: [f64; 3]) {
    for (last, share) in [3, 4, 7].into_iter().zip(shares) {
        let observed = spread.get(&Some(last)).copied().unwrap_or_default();
        assert_share(observed, CONNECTIONS, share);
    }
    assert_eq!(spread.values().sum::<u32>(), CONNECTIONS);
}

#[test]
fn weights_move_new_connections_at_once_and_no_open_one() {
    needs_root!();
    let mut node = node(&weighing(100, 0), &canary(&NEW));
    let mut established = Vec::new();
    for (first, old, new) in [(100, 100, 0), (110, 90, 10), (120, 0, 100)] {
        tell(&mut node, &weighing(old, new));
        let spread = open(&mut node, first);
        let [old, new] = [old, new].map(|weight| f64::from(weight) / 100.0);
        assert_shares(&spread, [old / 2.0, old / 2.0, new]);
        for (client, backend) in &established {
            let now = chosen(&mut node, Transport::TcpAck, *client);
            assert_eq!(now, Some(*backend), "{client:?} after {old}:{new}");
        }
        established.extend(establish(&mut node, first));
    }
}

/// Has some connections be established, of a client of their own; returns the backend of each.
fn establish(node: &mut Node, last: u8) -> Vec<(([u8; 4], u16), u8)> {
    let client = |port| ([10, 1, 1, last], port);
    let open = |port| {
        let syn = Packet::new(Transport::TcpSyn, client(port), CLUSTER_IP);
        let backend = backend_of(node, &syn).unwrap();
        let at_backend = syn.to(([10, 1, 1, backend], 8080));
        node.egress(&at_backend.answer().frame()).passed();
        let again = chosen(node, Transport::TcpAck, client(port));
        assert_eq!(again, Some(backend));
        (client(port), backend)
    };
    (20_000..20_200).map(open).collect()
}

#[test]
fn a_service_has_its_share_however_many_endpoints_it_has() {
    needs_root!();
    let many: Vec<(u8, u32)> = (10..60).map(|last| (last, u32::from(last))).collect();
    let mut node = node(&weighing(1, 1), &canary(&many));
    let spread = open(&mut node, 100);
    let of_canary = |(backend, count): (&Option<u8>, &u32)| {
        backend
            .filter(|last| *last >= 10)
            .map(|last| (last, *count))
    };
    let canaries: BTreeMap<u8, u32> = spread.iter().filter_map(of_canary).collect();
    assert_share(canaries.values().sum(), CONNECTIONS, 0.5);
    let sum: f64 = many.iter().map(|(_, weight)| f64::from(*weight)).sum();
    for (last, weight) in many {
        let observed = canaries.get(&last).copied().unwrap_or_default();
        assert_share(observed, CONNECTIONS, 0.5 * f64::from(weight) / sum);
    }
}

#[test]
fn the_share_of_a_service_that_goes_is_the_others_or_refused() {
    needs_root!();
    let mut node = node(&weighing(1, 1), &canary(&NEW));
    for (first, mode, shares, refused) in [
        (100, "available", [0.5, 0.5, 0.0], 0.0),
        (110, "strict", [0.35, 0.35, 0.0], 0.3),
        (120, "first", [0.5, 0.5, 0.0], 0.0),
    ] {
        let of = split(mode, &[("web-canary", 3), ("web", 7)]);
        tell(&mut node, &splitting(&of, ""));
        tell(&mut node, &canary(&[(7, 0)]));
        let spread = open(&mut node, first);
        assert_shares(&spread, shares);
        let observed = spread.get(&None).copied().unwrap_or_default();
        assert_share(observed, CONNECTIONS, refused);
        tell(&mut node, &canary(&NEW));
        let mut ports = 20_000..20_200;
        let back = ports.any(|port| {
            let client = ([10, 1, 1, first], port);
            chosen(&mut node, Transport::TcpSyn, client) == Some(7)
        });
        assert!(back, "{mode}: it can be used again");
    }
}
