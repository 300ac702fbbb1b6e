//! Contents of the nftables ruleset.

use shunt_tests::{Transport, rulesets::nftables};

use crate::{names::numbered, node, service};

/// The lines about services, without the words that every line has and with short names.
fn short(text: &str) -> String {
    let lines = text.lines().filter(|line| line.contains("default/web"));
    let lines: Vec<_> = lines
        .map(|line| line.replace(" ip kube-proxy", ""))
        .collect();
    numbered(&lines.join("\n"), 8)
        .replace("-default/web/tcp/p80__", "-")
        .replace("-default/web/tcp/p80", "")
}

#[test]
fn a_service_has_a_chain_that_chooses_and_one_for_each_endpoint() {
    let service = service("web", 1, Transport::Tcp, &[3, 4]);
    let text = nftables::load(&node(), &[service]);
    assert_eq!(
        short(&text),
        "add chain service-1\n\
         flush chain service-1\n\
         add chain external-1\n\
         flush chain external-1\n\
         add chain endpoint-2-10.1.2.3/8080\n\
         flush chain endpoint-2-10.1.2.3/8080\n\
         add chain endpoint-3-10.1.2.4/8080\n\
         flush chain endpoint-3-10.1.2.4/8080\n\
         add element service-ips { 10.96.0.1 . tcp . 80 : goto service-1 }\n\
         add element service-nodeports { tcp . 30001 : goto external-1 }\n\
         add rule service-1 ip daddr 10.96.0.1 tcp dport 80 ip saddr != 10.1.0.0/16 jump mark-for-masquerade\n\
         add rule external-1 jump mark-for-masquerade\n\
         add rule external-1 goto service-1\n\
         add rule service-1 numgen random mod 2 vmap { 0 : goto endpoint-2-10.1.2.3/8080 , 1 : goto endpoint-3-10.1.2.4/8080 }\n\
         add rule endpoint-2-10.1.2.3/8080 ip saddr 10.1.2.3 jump mark-for-masquerade\n\
         add rule endpoint-2-10.1.2.3/8080 meta l4proto tcp dnat to 10.1.2.3:8080\n\
         add rule endpoint-3-10.1.2.4/8080 ip saddr 10.1.2.4 jump mark-for-masquerade\n\
         add rule endpoint-3-10.1.2.4/8080 meta l4proto tcp dnat to 10.1.2.4:8080"
    );
}

#[test]
fn a_change_writes_its_service_and_empties_what_it_left() {
    let [before, after] = [3, 4].map(|host| service("web", 1, Transport::Tcp, &[host]));
    let text = nftables::change(&node(), &before, &after);
    let short = short(&text);
    assert!(
        short.ends_with("\nflush chain endpoint-3-10.1.2.3/8080"),
        "{short}"
    );
    assert!(!text.contains("element"), "no map changes:\n{text}");
}
