//! The backend of a new connection.

use std::collections::BTreeMap;

use super::{
    frame::{OPENING, Packet, Transport, destination},
    needs_root,
    node::{Node, Verdict, resync, update, web},
    reports::unreachable,
};

const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

/// Opens `count` connections and counts the backends by the last byte of their address.
fn spread(node: &mut Node, count: u16) -> BTreeMap<u8, u32> {
    let mut spread = BTreeMap::new();
    for port in 1000..1000 + count {
        let packet = Packet::new(Transport::TcpSyn, ([10, 1, 1, 9], port), FRONTEND);
        let (address, _) = destination(&node.ingress(&packet.frame()).passed());
        *spread.entry(address[3]).or_default() += 1;
    }
    spread
}

/// Fails if `observed` of `count` draws with this probability is 6 standard deviations off: by
/// chance once in 10^8 runs.
#[track_caller]
fn assert_share(observed: u32, count: u16, probability: f64) {
    let count = f64::from(count);
    let expected = count * probability;
    let deviation = (count * probability * (1.0 - probability)).sqrt();
    let off = (f64::from(observed) - expected).abs();
    assert!(
        off <= 6.0 * deviation,
        "{observed} of {count}, expected {expected:.0}"
    );
}

#[test]
fn a_share_of_new_connections_is_weight_over_sum_of_weights() {
    needs_root!();
    let mut node = Node::new([resync(&[]).as_str()]);
    for weights in [
        vec![(3, 1), (4, 3)],
        vec![(3, 1), (4, 1), (5, 1)],
        vec![(3, 5), (4, 0), (5, 2), (6, 9)],
        vec![(3, 1_000_000_007), (4, 3_000_000_000)],
    ] {
        // Another service each time: the client's ports are used anew.
        let mut fresh = Node::new([resync(&[&web(&weights)]).as_str()]);
        std::mem::swap(&mut node, &mut fresh);
        let sum: f64 = weights.iter().map(|(_, weight)| f64::from(*weight)).sum();
        let spread = spread(&mut node, 4000);
        for (last, weight) in weights {
            let observed = spread.get(&last).copied().unwrap_or_default();
            assert_share(observed, 4000, f64::from(weight) / sum);
            assert!(
                weight > 0 || observed == 0,
                "weight 0 receives no connection"
            );
        }
    }
}

#[test]
fn a_frontend_without_a_usable_backend_anywhere_rejects() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[])]).as_str()]);
    let client = ([10, 1, 1, 9], 1000);
    let mut rejected = 0;
    for backends in [vec![], vec![(3, 0), (4, 0)]] {
        node.apply(&update(&web(&backends)));
        for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
            for options in [0, 4, 40] {
                let packet = Packet {
                    options: vec![1; options],
                    ..Packet::new(transport, client, FRONTEND)
                };
                let frame = packet.frame();
                let answer = Verdict::Redirect(unreachable(&packet));
                assert_eq!(node.rejecting_ingress(&frame), answer, "{packet:?}");
                rejected += 1;
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_no_backend", rejected)]);

    node.apply(&update(&web(&[(3, 1)])));
    let packet = Packet::new(Transport::TcpSyn, client, FRONTEND);
    let sent = node.ingress(&packet.frame());
    assert_eq!(
        sent,
        Verdict::Pass(packet.to(([10, 1, 1, 3], 8080)).frame()),
        "usable again"
    );
}

#[test]
fn policy_local_without_a_local_backend_drops() {
    needs_root!();
    let remote = web(&[(3, 1)])
        .replace(r#""local":true"#, r#""local":false"#)
        .replace(
            r#""cluster_ips""#,
            r#""traffic_policy":"Local","cluster_ips""#,
        );
    let mut node = Node::new([resync(&[&remote]).as_str()]);
    let outsider = ([198, 51, 100, 5], 1000);
    for transport in OPENING {
        let packet = Packet::new(transport, outsider, ([203, 0, 113, 7], 80));
        assert_eq!(
            node.ingress(&packet.frame()),
            Verdict::Drop,
            "others have backends"
        );
    }
    assert_eq!(
        node.counters().into_iter().collect::<Vec<_>>(),
        [("drop_no_backend", 2)]
    );
    let packet = Packet::new(Transport::TcpSyn, ([10, 1, 1, 9], 1000), FRONTEND);
    let sent = node.ingress(&packet.frame());
    assert_eq!(
        sent,
        Verdict::Pass(packet.to(([10, 1, 1, 3], 8080)).frame()),
        "the ClusterIP does not follow the external policy",
    );
}

#[test]
fn an_event_that_does_not_fit_leaves_every_frontend_as_it_was() {
    needs_root!();
    let mut node = Node::new([resync(&[&web(&[(3, 1)])]).as_str()]);
    let many: Vec<_> = (1..=250).map(|last| (last, 1)).collect();
    let error = node
        .try_apply(&update(&web(&many)))
        .unwrap_err()
        .to_string();
    assert!(error.contains("the backends table is full"), "{error}");
    assert!(error.contains("--max-backends"), "{error}");
    assert_eq!(spread(&mut node, 50), BTreeMap::from([(3, 50)]));
    node.apply(&update(&web(&[(4, 1)])));
    let packet = Packet::new(Transport::TcpSyn, ([10, 1, 1, 9], 999), FRONTEND);
    let sent = node.ingress(&packet.frame());
    assert_eq!(
        sent,
        Verdict::Pass(packet.to(([10, 1, 1, 4], 8080)).frame())
    );
}
