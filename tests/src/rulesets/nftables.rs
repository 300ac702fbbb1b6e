//! Input of kube-proxy for `nft -f -`.
//!
//! ```text
//! prerouting   filter  new: @firewall-ips
//!              nat     services: @service-ips -> service-... -> endpoint-... -> dnat
//!                                @service-nodeports -> external-... -> mark, service-...
//! forward      filter  new: @no-endpoint-services, @cluster-ips
//! postrouting  nat     masquerading: what is marked
//! ```

use std::{fmt::Write as _, net::SocketAddrV4};

use super::{Node, Service, hash};

/// The table, with its family.
const TABLE: &str = "ip kube-proxy";

/// The bit of packets whose source is to be replaced.
const MARK: &str = "0x4000";

/// The transaction that writes everything for these services into an empty kernel.
pub fn load(node: &Node, services: &[Service]) -> String {
    let mut text = base(node);
    for service in services {
        chains(&mut text, service);
        elements(&mut text, service);
        rules(&mut text, node, service);
    }
    text
}

/// The transaction for one service whose endpoints changed from `before` to `after`: its own chains
/// again, and the chains of endpoints that it no longer has emptied. No map changes.
///
/// To know what nothing uses any longer, kube-proxy lists all chains and sets before it.
pub fn change(node: &Node, before: &Service, after: &Service) -> String {
    let mut text = String::new();
    chains(&mut text, after);
    rules(&mut text, node, after);
    for endpoint in &before.endpoints {
        if !after.endpoints.contains(endpoint) {
            let chain = endpoint_chain(before, *endpoint);
            line(&mut text, format_args!("flush chain {TABLE} {chain}"));
        }
    }
    text
}

/// The table with its maps and all chains that belong to no service.
#[expect(clippy::too_many_lines, reason = "the rules, one after the other")]
fn base(node: &Node) -> String {
    const MAPS: [&str; 7] = [
        "set {t} cluster-ips { type ipv4_addr ; comment \"Active ClusterIPs\" ; }",
        "set {t} nodeport-ips { type ipv4_addr ; comment \"IPs that accept NodePort traffic\" ; }",
        "map {t} no-endpoint-services { type ipv4_addr . inet_proto . inet_service : verdict ; comment \"vmap to drop or reject packets to services with no endpoints\" ; }",
        "map {t} no-endpoint-nodeports { type inet_proto . inet_service : verdict ; comment \"vmap to drop or reject packets to service nodeports with no endpoints\" ; }",
        "map {t} firewall-ips { type ipv4_addr . inet_proto . inet_service : verdict ; comment \"destinations that are subject to LoadBalancerSourceRanges\" ; }",
        "map {t} service-ips { type ipv4_addr . inet_proto . inet_service : verdict ; comment \"ClusterIP, ExternalIP and LoadBalancer IP traffic\" ; }",
        "map {t} service-nodeports { type inet_proto . inet_service : verdict ; comment \"NodePort traffic\" ; }",
    ];
    const HOOKED: [(&str, &str); 8] = [
        (
            "filter-prerouting-pre-dnat",
            "filter hook prerouting priority -110",
        ),
        ("filter-output-pre-dnat", "filter hook output priority -110"),
        ("filter-input", "filter hook input priority 0"),
        ("filter-forward", "filter hook forward priority 0"),
        ("filter-output", "filter hook output priority 0"),
        ("nat-prerouting", "nat hook prerouting priority -100"),
        ("nat-output", "nat hook output priority -100"),
        ("nat-postrouting", "nat hook postrouting priority 100"),
    ];
    const PLAIN: [&str; 8] = [
        "cluster-ips-check",
        "service-endpoints-check",
        "nodeport-endpoints-check",
        "firewall-check",
        "services",
        "masquerading",
        "mark-for-masquerade",
        "reject-chain",
    ];
    let Node {
        address,
        pod_cidr: _,
        service_cidr,
    } = node;
    let cluster_range = format!(
        "ip daddr {{ {service_cidr} }} drop comment \"Drop traffic to unallocated ClusterIPs\""
    );
    let (mark_set, mark_unset, mark_clear) = (
        format!("mark set mark or {MARK}"),
        format!("mark and {MARK} == 0 return"),
        format!("mark set mark xor {MARK}"),
    );
    let frontend = "ip daddr . meta l4proto . th dport vmap";
    let node_port = "ip daddr @nodeport-ips meta l4proto . th dport vmap";
    let rules = [
        ("filter-input", "ct state new jump nodeport-endpoints-check"),
        ("filter-input", "ct state new jump service-endpoints-check"),
        (
            "filter-forward",
            "ct state new jump service-endpoints-check",
        ),
        ("filter-forward", "ct state new jump cluster-ips-check"),
        ("filter-output", "ct state new jump service-endpoints-check"),
        ("filter-output", "ct state new jump cluster-ips-check"),
        (
            "filter-prerouting-pre-dnat",
            "ct state new jump firewall-check",
        ),
        ("filter-output-pre-dnat", "ct state new jump firewall-check"),
        ("nat-output", "jump services"),
        ("nat-prerouting", "jump services"),
        ("nat-postrouting", "jump masquerading"),
        ("mark-for-masquerade", &mark_set),
        ("masquerading", &mark_unset),
        ("masquerading", &mark_clear),
        ("masquerading", "masquerade fully-random"),
        (
            "cluster-ips-check",
            "ip daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\"",
        ),
        ("cluster-ips-check", &cluster_range),
        ("reject-chain", "reject"),
        (
            "service-endpoints-check",
            &format!("{frontend} @no-endpoint-services"),
        ),
        (
            "nodeport-endpoints-check",
            &format!("{node_port} @no-endpoint-nodeports"),
        ),
        ("firewall-check", &format!("{frontend} @firewall-ips")),
        ("services", &format!("{frontend} @service-ips")),
        ("services", &format!("{node_port} @service-nodeports")),
    ];

    let mut text = String::new();
    let out = &mut text;
    line(
        out,
        format_args!("add table {TABLE} {{ comment \"rules for kube-proxy\" ; }}"),
    );
    for map in MAPS {
        line(out, format_args!("add {}", map.replace("{t}", TABLE)));
    }
    line(
        out,
        format_args!("add element {TABLE} nodeport-ips {{ {address} }}"),
    );
    for (chain, hook) in HOOKED {
        line(
            out,
            format_args!("add chain {TABLE} {chain} {{ type {hook} ; }}"),
        );
        line(out, format_args!("flush chain {TABLE} {chain}"));
    }
    for chain in PLAIN {
        ensure(out, chain);
    }
    for (chain, rule) in rules {
        line(out, format_args!("add rule {TABLE} {chain} {rule}"));
    }
    text
}

/// The service's chains, there and empty.
fn chains(text: &mut String, service: &Service) {
    let id = service_id(service);
    ensure(text, &format!("service-{id}"));
    if service.node_port.is_some() {
        ensure(text, &format!("external-{id}"));
    }
    for endpoint in &service.endpoints {
        ensure(text, &endpoint_chain(service, *endpoint));
    }
}

/// The ways to the service's chains.
fn elements(text: &mut String, service: &Service) {
    let id = service_id(service);
    let Service {
        cluster_ip, port, ..
    } = service;
    let protocol = service.protocol();
    line(
        text,
        format_args!("add element {TABLE} cluster-ips {{ {cluster_ip} }}"),
    );
    line(
        text,
        format_args!(
            "add element {TABLE} service-ips {{ {cluster_ip} . {protocol} . {port} : goto service-{id} }}"
        ),
    );
    if let Some(node_port) = service.node_port {
        line(
            text,
            format_args!(
                "add element {TABLE} service-nodeports {{ {protocol} . {node_port} : goto external-{id} }}"
            ),
        );
    }
}

/// Writes the rules of the service's chains.
fn rules(text: &mut String, node: &Node, service: &Service) {
    let id = service_id(service);
    let protocol = service.protocol();
    let Service {
        cluster_ip,
        port,
        endpoints,
        ..
    } = service;
    let mut add =
        |chain: &str, rule: &str| line(text, format_args!("add rule {TABLE} {chain} {rule}"));
    let chain = format!("service-{id}");
    add(
        &chain,
        &format!(
            "ip daddr {cluster_ip} {protocol} dport {port} ip saddr != {} jump mark-for-masquerade",
            node.pod_cidr
        ),
    );
    if service.node_port.is_some() {
        let external = format!("external-{id}");
        add(&external, "jump mark-for-masquerade");
        add(&external, &format!("goto {chain}"));
    }
    let choices: Vec<_> = endpoints
        .iter()
        .enumerate()
        .map(|(number, endpoint)| format!("{number} : goto {}", endpoint_chain(service, *endpoint)))
        .collect();
    let (count, choices) = (endpoints.len(), choices.join(" , "));
    add(
        &chain,
        &format!("numgen random mod {count} vmap {{ {choices} }}"),
    );
    for endpoint in endpoints {
        let chain = endpoint_chain(service, *endpoint);
        add(
            &chain,
            &format!("ip saddr {} jump mark-for-masquerade", endpoint.ip()),
        );
        add(
            &chain,
            &format!("meta l4proto {protocol} dnat to {endpoint}"),
        );
    }
}

/// The part of the chains' names that is the service's own.
fn service_id(service: &Service) -> String {
    let name = format!(
        "default/{}/{}/p{}",
        service.name,
        service.protocol(),
        service.port
    );
    format!("{}-{name}", hash(&name, 8))
}

fn endpoint_chain(service: &Service, endpoint: SocketAddrV4) -> String {
    let name = format!(
        "default/{}/{}/p{}__{}/{}",
        service.name,
        service.protocol(),
        service.port,
        endpoint.ip(),
        endpoint.port()
    );
    format!("endpoint-{}-{name}", hash(&name, 8))
}

fn ensure(text: &mut String, chain: &str) {
    line(text, format_args!("add chain {TABLE} {chain}"));
    line(text, format_args!("flush chain {TABLE} {chain}"));
}

fn line(text: &mut String, command: std::fmt::Arguments<'_>) {
    writeln!(text, "{command}").expect("a string takes everything");
}
