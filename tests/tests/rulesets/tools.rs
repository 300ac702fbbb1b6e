//! The rulesets in a kernel: `nft` and `iptables-restore` take them, and a change after them.

use shunt_tests::{
    Namespace, Transport, has_program, has_root,
    rulesets::{iptables, nftables},
};

use crate::{node, service};

/// A namespace of this role, unless this is not root or the tool is not there.
fn namespace(role: &str, tool: &str) -> Option<Namespace> {
    if !has_root() {
        return None;
    }
    if !has_program(tool) {
        return None;
    }
    Some(Namespace::new(0, role).unwrap())
}

#[test]
fn nft_takes_the_rules_and_a_change_of_them() {
    let Some(namespace) = namespace("nft", "nft") else {
        return;
    };
    let before = service("web", 1, Transport::Tcp, &[1, 2, 3]);
    let other = service("dns", 2, Transport::Udp, &[1]);
    let after = service("web", 1, Transport::Tcp, &[1, 2, 4]);
    let nft = |text: &str| namespace.run_with_input("nft", &["-f", "-"], text).unwrap();
    nft(&nftables::load(&node(), &[before.clone(), other]));
    nft(&nftables::change(&node(), &before, &after));
    let rules = namespace
        .run_with_input("nft", &["list", "ruleset"], "")
        .unwrap();
    assert!(
        rules.contains("dnat to 10.1.2.4:8080"),
        "the new endpoint is there:\n{rules}"
    );
    assert!(
        !rules.contains("dnat to 10.1.2.3:8080"),
        "the old endpoint is gone:\n{rules}"
    );
}

#[test]
fn iptables_takes_the_rules_and_a_change_of_them() {
    let Some(namespace) = namespace("iptables", "iptables-restore") else {
        return;
    };
    let before = service("web", 1, Transport::Tcp, &[1, 2, 3]);
    let other = service("dns", 2, Transport::Udp, &[1]);
    let after = service("web", 1, Transport::Tcp, &[1, 2, 4]);
    let restore = |text: &str| {
        let arguments = ["--noflush", "--counters"];
        namespace
            .run_with_input("iptables-restore", &arguments, text)
            .unwrap()
    };
    restore(&iptables::load(&node(), &[before, other.clone()]));
    restore(&iptables::change(
        &node(),
        &[after.clone(), other],
        &[after],
    ));
    let rules = namespace
        .run_with_input("iptables-save", &["-t", "nat"], "")
        .unwrap();
    let to = |text: &str| {
        let chain = rules
            .lines()
            .find(|line| line.contains(&format!("DNAT --to-destination {text}")))
            .and_then(|line| line.split(' ').nth(1));
        chain.is_some_and(|chain| rules.contains(&format!("-j {chain}")))
    };
    assert!(to("10.1.2.4:8080"), "the new endpoint is chosen:\n{rules}");
    assert!(!to("10.1.2.3:8080"), "the old endpoint is not:\n{rules}");
}
