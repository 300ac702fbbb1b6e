//! Taking over from a kube-proxy that still runs, and writes its rules on: the order of docs/install.md.

use std::{net::SocketAddr, time::Duration};

use shunt_tests::{Continuous, Transport, rulesets::nftables, wait_until};

use crate::{
    take_over::{Before, Open, all_well, rules_node, rules_service},
    world::{REQUEST, SERVED},
};

const SOON: Duration = Duration::from_secs(10);

/// Number of times that kube-proxy changes its rules while both are there.
const SYNCS: usize = 6;

#[test]
fn kube_proxy_may_write_its_rules_on_until_shunt_translates() {
    let Some(before) = Before::new(Transport::Tcp, "nft") else {
        return;
    };
    let mut open = Open::new(&before);
    let pod = before.sandbox.pod("pod-c").namespace();
    let inside = Continuous::start(pod, before.service.cluster_ip(), REQUEST);
    let outside = before.sandbox.outside();
    let outside = Continuous::start(outside, before.service.node_port(), REQUEST);
    let at = |names: &[&str]| -> Vec<SocketAddr> {
        let pods = names.iter().map(|name| before.sandbox.pod(name).at(SERVED));
        pods.collect()
    };
    let all = rules_service(Transport::Tcp, &at(&["pod-a", "pod-b", "pod-d"]));
    let one = rules_service(Transport::Tcp, &at(&["pod-b"]));
    let (world, service) = before.world(&[]);
    let node = world.sandbox.node();
    for sync in 0..SYNCS {
        let (from, to) = if sync % 2 == 0 {
            (&all, &one)
        } else {
            (&one, &all)
        };
        let change = nftables::change(&rules_node(), from, to);
        node.run_with_input("nft", &["-f", "-"], &change).unwrap();
        for traffic in [&inside, &outside] {
            traffic.wait_for(10, SOON).unwrap();
        }
        open.check();
    }
    // Whatever its last rules are, the backend of a new connection is Shunt's choice.
    let change = nftables::change(&rules_node(), &all, &one);
    node.run_with_input("nft", &["-f", "-"], &change).unwrap();
    for target in [service.cluster_ip(), service.node_port()] {
        let from = world.sandbox.outside();
        wait_until("all three answer", SOON, || {
            let tally = from.enter(|| target.ask_times(30, REQUEST));
            assert!(tally.failures.is_empty(), "{tally:#?}");
            (tally.shares.len() == 3).then_some(())
        })
        .unwrap();
    }
    open.check();
    all_well(inside, "inside");
    all_well(outside, "outside");
}
