//! Contents of the iptables ruleset.

use shunt_tests::{Transport, rulesets::iptables};

use crate::{names::numbered, node, service};

/// The rules of the chains of this kind, without the comments and with short names.
fn rules(text: &str, chain: &str) -> Vec<String> {
    let start = format!("-A {chain}");
    numbered(text, 16)
        .lines()
        .filter_map(|line| line.strip_prefix(&start))
        .map(|rule| match rule.split_once("-m comment --comment \"") {
            None => rule.to_owned(),
            Some((before, comment)) => {
                let (_, after) = comment.split_once("\" ").unwrap();
                format!("{before}{after}")
            }
        })
        .collect()
}

#[test]
fn endpoints_share_new_connections_alike() {
    let service = service("dns", 2, Transport::Udp, &[3, 4, 5]);
    let text = iptables::load(&node(), &[service]);
    assert_eq!(
        rules(&text, "KUBE-SVC-"),
        [
            "1 -m udp -p udp -d 10.96.0.2 --dport 80 ! -s 10.1.0.0/16 -j KUBE-MARK-MASQ",
            "1 -m statistic --mode random --probability 0.3333333333 -j KUBE-SEP-2",
            "1 -m statistic --mode random --probability 0.5000000000 -j KUBE-SEP-3",
            "1 -j KUBE-SEP-4",
        ]
    );
    assert_eq!(
        rules(&text, "KUBE-SEP-2"),
        [
            " -s 10.1.2.3 -j KUBE-MARK-MASQ",
            " -m udp -p udp -j DNAT --to-destination 10.1.2.3:8080"
        ]
    );
    assert_eq!(
        rules(&text, "KUBE-EXT-"),
        ["1 -j KUBE-MARK-MASQ", "1 -j KUBE-SVC-1"]
    );
}

#[test]
fn node_ports_are_asked_last() {
    let text = iptables::load(&node(), &[service("dns", 2, Transport::Udp, &[3])]);
    assert_eq!(
        rules(&text, "KUBE-SERVICES").last().unwrap(),
        " -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS"
    );
}

#[test]
fn many_endpoints_have_no_comments() {
    let hosts: Vec<_> = (1..=250).collect();
    let services: Vec<_> = (1..=5)
        .map(|ip| service(&format!("s{ip}"), ip, Transport::Tcp, &hosts))
        .collect();
    let text = iptables::load(&node(), &services);
    let commented = |line: &&str| line.starts_with("-A KUBE-SEP-") && line.contains("comment");
    assert_eq!(text.lines().find(commented), None);
}

#[test]
fn a_change_has_the_chains_of_its_service_alone_but_the_ways_to_all() {
    let [first, second] = [1, 2].map(|ip| service("web", ip, Transport::Tcp, &[3]));
    let [first, second] = [("a", first), ("b", second)].map(|(name, mut service)| {
        name.clone_into(&mut service.name);
        service
    });
    let all = [first, second];
    let text = iptables::change(&node(), &all, &all[..1]);
    assert_eq!(
        rules(&text, "KUBE-SERVICES").len(),
        3,
        "two ways and the node ports:\n{text}"
    );
    let declared = |line: &&str| line.starts_with(":KUBE-SVC-");
    assert_eq!(text.lines().filter(declared).count(), 1, "{text}");
    assert!(
        !text.contains("-I "),
        "the jumps are there already:\n{text}"
    );
}
