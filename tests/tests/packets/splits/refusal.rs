//! Connections that are refused.

use super::world::{
    CLUSTER_IP, NEW, OLD, backend_of, canary, chosen, node, split, splitting, tell,
};
use crate::{
    frame::{OPENING, Packet, Transport},
    needs_root,
    node::{Node, resync},
};

#[test]
fn what_nobody_can_serve_is_refused_in_every_mode() {
    needs_root!();
    let mut node = node(&splitting(&split("strict", &[]), ""), &canary(&NEW));
    let mut refused = 0;
    for mode in ["available", "strict", "first"] {
        for backends in [
            &[][..],
            &[("web", 0)],
            &[("web", 0), ("web-canary", 0)],
            &[("gone", 1)],
        ] {
            tell(&mut node, &splitting(&split(mode, backends), ""));
            for transport in OPENING {
                let backend = chosen(&mut node, transport, ([10, 1, 1, 9], 1000));
                assert_eq!(backend, None, "{mode} {backends:?}");
                refused += 1;
            }
        }
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_no_backend", refused)]);
}

/// Attempts of one client. Where half are refused, not all of them are.
const ATTEMPTS: u32 = 64;

#[test]
fn a_refused_share_is_told_and_counted_and_a_client_may_ask_again() {
    needs_root!();
    let strict = split("strict", &[("web", 1), ("gone", 1)]);
    let mut node = node(&splitting(&strict, ""), &canary(&NEW));
    let (mut refused, mut served) = (0, 0);
    for transport in OPENING {
        for port in 1000..1500 {
            let client = ([10, 1, 1, 9], port);
            let attempts = (0..ATTEMPTS).map(|number| match transport {
                Transport::TcpSyn => Transport::TcpSynAt(number),
                datagram => datagram,
            });
            let is_refused = |attempt: &Transport| chosen(&mut node, *attempt, client).is_none();
            let lost = attempts.take_while(is_refused).count();
            assert!(lost < ATTEMPTS as usize, "after {served} that were served");
            refused += lost as u64;
            served += 1;
        }
    }
    assert!(refused > 500, "{refused} refused for {served} served");
    let counted = node.counters()["reject_no_backend"];
    assert_eq!(counted, refused);
    assert!(!node.counters().contains_key("drop_corrupt"));
    // What is open is not drawn for again.
    for port in 1000..1500 {
        let client = ([10, 1, 1, 9], port);
        assert!(chosen(&mut node, Transport::TcpAck, client).is_some());
        assert!(chosen(&mut node, Transport::Udp, client).is_some());
    }
    assert_eq!(node.counters()["reject_no_backend"], refused);
}

/// The frontends at which `web` is reached from a pod of this node.
const EVERYWHERE: [([u8; 4], u16); 3] = [
    CLUSTER_IP,
    ([203, 0, 113, 7], 80),
    ([192, 168, 16, 10], 30080),
];

#[test]
fn a_split_of_cluster_ips_leaves_the_other_frontends_their_own_endpoints() {
    needs_root!();
    let all = split("strict", &[("web-canary", 1)]);
    let restricted = all.replace(r#""mode""#, r#""frontends":"cluster_ip","mode""#);
    let mut node = node(&splitting(&all, ""), &canary(&NEW));
    for (last, of, canaries) in [
        (100, &all, [true; 3]),
        (101, &restricted, [true, false, false]),
    ] {
        tell(&mut node, &splitting(of, ""));
        for (frontend, of_canary) in EVERYWHERE.into_iter().zip(canaries) {
            for port in 1000..1100 {
                let client = ([10, 1, 1, last], port);
                let packet = Packet::new(Transport::TcpSyn, client, frontend);
                let backend = backend_of(&mut node, &packet).unwrap();
                assert_eq!(backend == 7, of_canary, "{frontend:?}: {backend}");
            }
        }
    }
}

#[test]
fn under_policy_local_a_service_that_is_only_elsewhere_is_refused_its_share() {
    needs_root!();
    let strict = split("strict", &[("web", 1), ("web-canary", 1)]);
    let web = splitting(&strict, r#""internal_traffic_policy":"Local","#);
    let here = canary(&NEW);
    let elsewhere = here.replace(r#""local":true"#, r#""local":false"#);
    let mut node = node(&web, &here);
    let spread = |node: &mut Node, client: u8| {
        let asked = (1000..1400).map(|port| ([10, 1, 1, client], port));
        let backends: Vec<_> = asked
            .map(|client| chosen(node, Transport::TcpSyn, client))
            .collect();
        [None, Some(7)].map(|wanted| backends.iter().filter(|found| **found == wanted).count())
    };
    let [refused, canaries] = spread(&mut node, 100);
    assert_eq!(refused, 0);
    assert!((120..280).contains(&canaries), "{canaries} of 400");
    tell(&mut node, &elsewhere);
    let [refused, canaries] = spread(&mut node, 101);
    assert_eq!(canaries, 0, "it is elsewhere");
    assert!((120..280).contains(&refused), "{refused} of 400");
}

#[test]
fn a_split_needs_no_endpoints_of_its_own() {
    needs_root!();
    let strict = split("strict", &[("web-canary", 1)]);
    let web = splitting(&strict, "");
    let begin = web.find(r#","backends":{"tcp":[{"ip""#).unwrap();
    let without = format!("{}}}", &web[..begin]);
    let mut node = Node::new([resync(&[&without, &canary(&OLD)]).as_str()]);
    let backend = chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, 9], 1000));
    assert!(
        OLD.iter().any(|(last, _)| backend == Some(*last)),
        "{backend:?}"
    );
}
