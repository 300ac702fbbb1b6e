//! Netfilter's rules that filter packets before their destination is translated, and so miss those of services.

use std::time::Duration;

use shunt_tests::{Transport, has_program, run, wait_until};

use crate::{
    service::Service,
    world::{World, all_answered_outside, resync_with},
};

/// Time in which the agent compares rules with the frontends of a Resync.
const SOON: Duration = Duration::from_secs(10);

/// Beginning of the line of the status, up to the rules.
const BEGINNING: &str = "netfilter rules before the translation of addresses have no effect on \
                         packets to services, which Shunt translates earlier: ";

/// Rules for the external address of [`Service`], and others. Only `named` and `jumped` are to be named, and Calico's
/// chain that has a rule.
const RULES: &str = "
table ip early {
    chain named {
        type filter hook prerouting priority raw; policy accept;
        ip daddr 203.0.113.7 tcp dport 80 drop
        ip daddr 203.0.113.99 drop
        tcp dport 9999 drop
        ip saddr 192.0.2.1 fib saddr . iif oif missing drop
        ip saddr 192.0.2.1 jump jumped
    }
    chain jumped { ip daddr 203.0.113.0/24 udp dport 53 drop; tcp dport 70-90 drop; }
    chain unreached { ip daddr 203.0.113.7 drop; }
    chain translating {
        type filter hook prerouting priority dstnat; policy accept;
        ip daddr 203.0.113.7 drop
    }
}
table ip mangle {
    chain PREROUTING {
        type filter hook prerouting priority mangle; policy accept;
        jump cali-PREROUTING
    }
    chain cali-PREROUTING { jump cali-from-host-endpoint; }
    chain cali-from-host-endpoint { counter; }
}
table ip raw {
    chain PREROUTING {
        type filter hook prerouting priority raw; policy accept;
        jump cali-from-host-endpoint
    }
    chain cali-from-host-endpoint { }
}
";

/// Returns the rules that the line of the status names, once there is one.
fn named(world: &World) -> String {
    wait_until("the status names the rules", SOON, || {
        let status = world.shunt(&["status", "-o", "json"]).json();
        let mut lines = status["host"].as_array()?.iter();
        let line = lines.find_map(|line| line.as_str()?.strip_prefix(BEGINNING));
        let (rules, _) = line?.split_once(". Use ")?;
        Some(rules.to_owned())
    })
    .unwrap()
}

/// An agent whose service is translated, on a node where `rules` were written before.
fn world_with(rules: impl FnOnce(&World) -> bool) -> Option<World> {
    let world = World::new()?;
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    if !rules(&world) {
        return None;
    }
    let mut world = world.stopped().start(&[]);
    world.apply(&resync_with(&[service.json()]));
    // Its packets meet none of the rules.
    all_answered_outside(world.sandbox.outside(), service.external_ip(), 5);
    Some(world)
}

#[test]
fn rules_that_no_longer_filter_packets_to_services_are_named() {
    let of_nft = |world: &World| {
        let node = world.sandbox.node();
        node.run_with_input("nft", &["-f", "-"], RULES).unwrap();
        true
    };
    let Some(world) = world_with(of_nft) else {
        return;
    };
    let named = named(&world);
    let mut parts: Vec<_> = named.split(", ").collect();
    parts.sort_unstable();
    let [calico, jumped, direct] = parts[..] else {
        panic!("{named}");
    };
    let host_endpoints =
        "Calico's host endpoint policies in chain cali-from-host-endpoint of ip mangle";
    assert_eq!(calico, host_endpoints);
    assert!(
        jumped.starts_with("a rule of chain jumped of ip early for "),
        "{jumped}"
    );
    let expected = "a rule of chain named of ip early for 203.0.113.7:80/TCP";
    assert_eq!(direct, expected);
}

#[test]
fn rules_of_iptables_are_read_where_nftables_has_them() {
    if !has_program("iptables-nft") {
        return;
    }
    let of_iptables = |world: &World| {
        let node = world.sandbox.node().name();
        let rule = [
            "-t",
            "raw",
            "-A",
            "PREROUTING",
            "-d",
            "203.0.113.7",
            "-p",
            "tcp",
            "-m",
            "multiport",
            "--dports",
            "70:90,443",
            "-j",
            "DROP",
        ];
        let command = ["netns", "exec", node, "iptables-nft"];
        run("ip", &[&command[..], &rule].concat()).unwrap();
        true
    };
    let Some(world) = world_with(of_iptables) else {
        return;
    };
    let expected = "a rule of chain PREROUTING of ip raw for 203.0.113.7:80/TCP";
    assert_eq!(named(&world), expected);
}
