//! Input of kube-proxy for `iptables-restore --noflush --counters`.
//!
//! ```text
//! nat     PREROUTING, OUTPUT -> KUBE-SERVICES -> KUBE-SVC-... -> KUBE-SEP-... -> DNAT
//!                               KUBE-NODEPORTS -> KUBE-EXT-... -> KUBE-MARK-MASQ, KUBE-SVC-...
//!         POSTROUTING -> KUBE-POSTROUTING: MASQUERADE what is marked
//! filter  FORWARD -> KUBE-PROXY-FIREWALL, KUBE-FORWARD, KUBE-SERVICES, KUBE-EXTERNAL-SERVICES
//! ```

use std::{fmt::Write as _, net::SocketAddrV4};

use super::{Node, Service, hash};

/// From this number of endpoints on, kube-proxy leaves out the comments of their rules.
const LARGE: usize = 1_000;

/// The input that writes everything for these services into an empty kernel, with the jumps from
/// the built-in chains; so it is not for a second time.
pub fn load(node: &Node, services: &[Service]) -> String {
    restore(node, services, services, JUMPS)
}

/// The input for a change of these services (`changed`) among all `services`: their chains, and
/// what each input has: the filter rules, and all of `KUBE-SERVICES` and `KUBE-NODEPORTS`.
///
/// With as many endpoints as here, kube-proxy leaves the chains of endpoints that are gone to a
/// later, full input.
pub fn change(node: &Node, services: &[Service], changed: &[Service]) -> String {
    restore(node, services, changed, Jumps::default())
}

/// Rules of the built-in chains, each put first.
#[derive(Clone, Copy, Default)]
struct Jumps {
    filter: &'static [&'static str],
    nat: &'static [&'static str],
}

/// In this order, so that the last one is the first to be asked.
const JUMPS: Jumps = Jumps {
    filter: &[
        "INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
        "INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD",
        "INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
        "OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
        "INPUT -j KUBE-FIREWALL",
        "OUTPUT -j KUBE-FIREWALL",
    ],
    nat: &[
        "OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
        "POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING",
    ],
};

/// The chains of the filter table and what is in them, whatever the services are.
const FILTER: &str = "\
:KUBE-NODEPORTS - [0:0]
:KUBE-SERVICES - [0:0]
:KUBE-EXTERNAL-SERVICES - [0:0]
:KUBE-FIREWALL - [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-PROXY-FIREWALL - [0:0]
-A KUBE-FIREWALL -m comment --comment \"block incoming localnet connections\" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP
-A KUBE-FORWARD -m conntrack --ctstate INVALID -j DROP
-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x4000/0x4000 -j ACCEPT
-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
";

/// The rules of the nat table that no service has a part in.
const MASQUERADE: &str = "\
-A KUBE-POSTROUTING -m mark ! --mark 0x4000/0x4000 -j RETURN
-A KUBE-POSTROUTING -j MARK --xor-mark 0x4000
-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully
-A KUBE-MARK-MASQ -j MARK --or-mark 0x4000
";

fn restore(node: &Node, services: &[Service], changed: &[Service], jumps: Jumps) -> String {
    let endpoints: usize = services.iter().map(|service| service.endpoints.len()).sum();
    let comments = endpoints <= LARGE;
    let Jumps { filter, nat } = jumps;

    let mut text = format!("*filter\n{FILTER}");
    insert(&mut text, filter);
    text.push_str("COMMIT\n*nat\n");
    for chain in ["NODEPORTS", "SERVICES", "POSTROUTING", "MARK-MASQ"] {
        declare(&mut text, &format!("KUBE-{chain}"));
    }
    for service in changed {
        let names = Names::of(service);
        declare(&mut text, &names.service);
        if service.node_port.is_some() {
            declare(&mut text, &names.external);
        }
        for endpoint in &service.endpoints {
            declare(&mut text, &endpoint_chain(service, *endpoint));
        }
    }
    text.push_str(MASQUERADE);
    insert(&mut text, nat);
    for service in services {
        ways(&mut text, service);
    }
    for service in changed {
        rules(&mut text, node, service, comments);
    }
    text.push_str(
        "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\" \
         -m addrtype --dst-type LOCAL -j KUBE-NODEPORTS\nCOMMIT\n",
    );
    text
}

/// The rules that lead to the service's chains.
fn ways(text: &mut String, service: &Service) {
    let Names {
        service: own,
        external,
    } = Names::of(service);
    let (protocol, name) = (service.protocol(), service.port_name());
    let Service {
        cluster_ip, port, ..
    } = service;
    add(
        text,
        "KUBE-SERVICES",
        &format!(
            "-m comment --comment \"{name} cluster IP\" -m {protocol} -p {protocol} -d {cluster_ip} --dport {port} -j {own}"
        ),
    );
    if let Some(node_port) = service.node_port {
        add(
            text,
            "KUBE-NODEPORTS",
            &format!(
                "-m comment --comment {name} -m {protocol} -p {protocol} --dport {node_port} -j {external}"
            ),
        );
    }
}

/// Writes the rules of the service's chains.
fn rules(text: &mut String, node: &Node, service: &Service, comments: bool) {
    let Names {
        service: own,
        external,
    } = Names::of(service);
    let (protocol, name) = (service.protocol(), service.port_name());
    let Service {
        cluster_ip,
        port,
        endpoints,
        ..
    } = service;
    let comment = |words: &str| {
        if comments {
            format!("-m comment --comment \"{words}\" ")
        } else {
            String::new()
        }
    };
    add(
        text,
        &own,
        &format!(
            "-m comment --comment \"{name} cluster IP\" -m {protocol} -p {protocol} -d {cluster_ip} --dport {port} ! -s {} -j KUBE-MARK-MASQ",
            node.pod_cidr
        ),
    );
    if service.node_port.is_some() {
        add(
            text,
            &external,
            &format!(
                "-m comment --comment \"masquerade traffic for {name} external destinations\" -j KUBE-MARK-MASQ"
            ),
        );
        add(text, &external, &format!("-j {own}"));
    }
    for (number, endpoint) in endpoints.iter().enumerate() {
        let chain = endpoint_chain(service, *endpoint);
        let to = comment(&format!("{name} -> {endpoint}"));
        // Those that are left share alike what has passed the ones before.
        let left = endpoints.len() - number;
        let chance = if left == 1 {
            String::new()
        } else {
            format!(
                "-m statistic --mode random --probability {:.10} ",
                1.0 / left as f64
            )
        };
        add(text, &own, &format!("{to}{chance}-j {chain}"));
        let whose = comment(&name.to_string());
        add(
            text,
            &chain,
            &format!("{whose}-s {} -j KUBE-MARK-MASQ", endpoint.ip()),
        );
        add(
            text,
            &chain,
            &format!("{whose}-m {protocol} -p {protocol} -j DNAT --to-destination {endpoint}"),
        );
    }
}

/// The names of a service's chains.
struct Names {
    service: String,
    external: String,
}

impl Names {
    fn of(service: &Service) -> Self {
        let id = hash(
            &format!("{}{}", service.port_name(), service.protocol()),
            16,
        );
        Self {
            service: format!("KUBE-SVC-{id}"),
            external: format!("KUBE-EXT-{id}"),
        }
    }
}

fn endpoint_chain(service: &Service, endpoint: SocketAddrV4) -> String {
    let name = format!("{}{}{endpoint}", service.port_name(), service.protocol());
    format!("KUBE-SEP-{}", hash(&name, 16))
}

fn declare(text: &mut String, chain: &str) {
    line(text, format_args!(":{chain} - [0:0]"));
}

fn insert(text: &mut String, rules: &[&str]) {
    for rule in rules {
        line(text, format_args!("-I {rule}"));
    }
}

fn add(text: &mut String, chain: &str, rule: &str) {
    line(text, format_args!("-A {chain} {rule}"));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    writeln!(text, "{words}").expect("a string takes everything");
}
