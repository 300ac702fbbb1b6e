//! Flows that were recorded from kube-proxy's own tests, through source and renderer.
//!
//! `SHUNT_CASES` names the folder with `kube-proxy-flows.json`. Which endpoints may answer, and what is
//! refused or dropped, is compared; whose address a backend sees is another thing here on purpose
//! (docs/local-pods.md).

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    net::IpAddr,
    path::Path,
};

use ipnet::IpNet;
use serde::Deserialize;
use shunt::kubernetes::{Address, EndpointSlice, NodeView, PrimaryAddresses, Service, translate};
use shunt_model::{
    Clients, Frontend, FrontendKey, FrontendKind, Protocol, Refusal, RenderOptions, Renderer,
    RendererEvent, Snapshot,
};

/// A state of a cluster, and flows on one of its nodes.
#[derive(Deserialize)]
struct Case {
    test: String,
    step: String,
    backend: String,
    config: Config,
    objects: Objects,
    flows: Vec<Flow>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Config {
    node_name: String,
    #[serde(rename = "nodeIP")]
    node_ip: IpAddr,
    #[serde(rename = "localIPs")]
    local_ips: BTreeSet<IpAddr>,
    detect_local: Option<DetectLocal>,
    topology_labels: BTreeMap<String, String>,
    #[serde(rename = "serviceCIDRs")]
    service_cidrs: Option<Vec<IpNet>>,
    node_port_addresses: Option<Vec<IpNet>>,
}

#[derive(Deserialize)]
struct DetectLocal {
    cidr: IpNet,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Objects {
    services: Vec<Service>,
    endpoint_slices: Vec<EndpointSlice>,
}

#[derive(Deserialize)]
struct Flow {
    name: String,
    #[serde(rename = "sourceIP")]
    source: IpAddr,
    #[serde(rename = "destIP")]
    destination: IpAddr,
    protocol: String,
    #[serde(rename = "destPort")]
    port: u16,
    endpoints: BTreeSet<String>,
    verdict: String,
}

/// What becomes of a flow, and who may answer it.
type Verdict = (&'static str, BTreeSet<String>);

/// The node, with all that follows from the objects.
struct Node<'a> {
    config: &'a Config,
    renderer: Renderer,
}

impl<'a> Node<'a> {
    fn new(case: &'a Case) -> Self {
        let config = &case.config;
        let zone = config.topology_labels.get("topology.kubernetes.io/zone");
        let of_family = |ipv4| (config.node_ip.is_ipv4() == ipv4).then_some(config.node_ip);
        let view = NodeView {
            name: config.node_name.as_str().into(),
            zone: zone
                .filter(|zone| !zone.is_empty())
                .map(|zone| zone.as_str().into()),
            addresses: PrimaryAddresses {
                v4: of_family(true),
                v6: of_family(false),
            },
        };
        let services = case.objects.services.iter().filter_map(|service| {
            let slices = case.objects.endpoint_slices.iter();
            let own = slices.filter(|slice| slice.service.as_ref() == Some(&service.id));
            translate(service, own, &view).service
        });
        let options = RenderOptions {
            node_ips: config.local_ips.clone(),
            ..RenderOptions::default()
        };
        let mut renderer = Renderer::new(options);
        let resync = RendererEvent::Resync(Snapshot {
            node_ips: config.node_port_addresses(),
            services: services.collect(),
            service_cidrs: config.service_cidrs.iter().flatten().copied().collect(),
            ..Snapshot::default()
        });
        let plan = renderer.plan(resync).unwrap();
        renderer.commit(plan);
        Self { config, renderer }
    }

    /// What becomes of a flow here.
    fn verdict(&self, flow: &Flow) -> Verdict {
        let protocol = match flow.protocol.as_str() {
            "TCP" => Protocol::Tcp,
            "UDP" => Protocol::Udp,
            "SCTP" => Protocol::Sctp,
            other => panic!("an unknown protocol: {other}"),
        };
        let key = FrontendKey {
            address: flow.destination,
            port: flow.port,
            protocol,
        };
        let is_host = flow.source.is_loopback() || self.config.local_ips.contains(&flow.source);
        let is_pod = self.config.detect_local.as_ref();
        let is_here = is_host || is_pod.is_some_and(|pods| pods.cidr.contains(&flow.source));
        if let Some(frontend) = self.renderer.frontend(key)
            && (is_here || frontend.clients == Clients::Everyone)
        {
            return of_frontend(frontend, flow.source, is_here);
        }
        if is_host && flow.destination.is_loopback() {
            // At their sockets, processes of the node have NodePorts there too.
            let mut own = self.renderer.frontends();
            let node_port = own.find(|(own, frontend)| {
                frontend.kind == FrontendKind::NodePort
                    && (own.port, own.protocol) == (key.port, key.protocol)
                    && own.address.is_ipv4() == key.address.is_ipv4()
            });
            if let Some((_, frontend)) = node_port {
                return of_frontend(frontend, flow.source, true);
            }
        }
        if self.renderer.service_address(flow.destination) == Some(FrontendKind::ClusterIp) {
            return ("reject", BTreeSet::new());
        }
        let mut ranges = self.config.service_cidrs.iter().flatten();
        if ranges.any(|range| range.contains(&flow.destination)) {
            return ("drop", BTreeSet::new());
        }
        ("untouched", BTreeSet::new())
    }
}

impl Config {
    /// Those of the node's addresses that carry NodePorts.
    fn node_port_addresses(&self) -> BTreeSet<IpAddr> {
        let ranges = self.node_port_addresses.as_deref().unwrap_or_default();
        let says_nothing = |ipv4: bool| {
            let mut own = ranges
                .iter()
                .filter(|range| range.addr().is_ipv4() == ipv4)
                .peekable();
            own.peek().is_none() || own.any(|range| range.prefix_len() == 0)
        };
        let carries = |address: &IpAddr| {
            says_nothing(address.is_ipv4()) || ranges.iter().any(|range| range.contains(address))
        };
        self.local_ips.iter().copied().filter(carries).collect()
    }
}

/// What a frontend does with a client, who may be one of this node.
fn of_frontend(frontend: &Frontend, client: IpAddr, is_here: bool) -> Verdict {
    let sources = &frontend.sources;
    if !sources.is_empty() && !sources.iter().any(|range| range.contains(&client)) {
        return ("drop", BTreeSet::new());
    }
    let frontend = match &frontend.this_node {
        Some(other) if is_here => other,
        _ => frontend,
    };
    let taking = frontend
        .backends
        .backends
        .iter()
        .filter(|backend| backend.weight > 0);
    let taking: BTreeSet<_> = taking
        .map(|backend| std::net::SocketAddr::new(backend.ip, backend.port).to_string())
        .collect();
    match (taking.is_empty(), frontend.refusal) {
        (false, _) => ("dnat", taking),
        (true, Refusal::Reject) => ("reject", taking),
        (true, Refusal::Drop) => ("drop", taking),
    }
}

/// Why a row is another one here, if it is on purpose.
fn reason(case: &Case, flow: &Flow, found: &Verdict) -> Option<&'static str> {
    let is_iptables = case.backend == "iptables";
    match (flow.verdict.as_str(), found.0) {
        ("untouched", "dnat") if flow.destination.is_loopback() => {
            Some("processes of the node have NodePorts at loopback addresses")
        }
        ("untouched", "reject" | "drop") if is_iptables => {
            Some("iptables mode has no guard of ClusterIPs")
        }
        ("reject", "drop") if is_iptables => {
            Some("in iptables mode source ranges count with endpoints alone")
        }
        ("accept", "untouched") if is_iptables => {
            Some("iptables mode accepts health checks where others may not")
        }
        _ => None,
    }
}

#[test]
fn flows_go_where_kube_proxy_sends_them() {
    let Some(folder) = env::var_os("SHUNT_CASES") else {
        eprintln!("skipped: SHUNT_CASES does not name the folder of recorded cases");
        return;
    };
    let text = fs::read_to_string(Path::new(&folder).join("kube-proxy-flows.json")).unwrap();
    let cases: Vec<Case> = serde_json::from_str(&text).unwrap();
    let (mut rows, mut agree) = (0, 0);
    let mut reasons = BTreeMap::<_, u32>::new();
    let mut wrong = Vec::new();
    for case in &cases {
        let node = Node::new(case);
        for flow in &case.flows {
            rows += 1;
            let found = node.verdict(flow);
            if (flow.verdict.as_str(), &flow.endpoints) == (found.0, &found.1) {
                agree += 1;
            } else if let Some(reason) = reason(case, flow, &found) {
                *reasons.entry(reason).or_default() += 1;
            } else {
                let Case {
                    test,
                    step,
                    backend,
                    ..
                } = case;
                let expected = (&flow.verdict, &flow.endpoints);
                let Flow {
                    name,
                    source,
                    destination,
                    port,
                    ..
                } = flow;
                wrong.push(format!(
                    "{backend} {test}, {step}: {name} ({source} to {destination}:{port}): \
                     {found:?}, not {expected:?}"
                ));
            }
        }
    }
    println!("{agree} of {rows} rows agree; others on purpose: {reasons:#?}");
    assert!(rows > 0);
    assert!(
        wrong.is_empty(),
        "{} rows:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// Objects have addresses as they are written.
#[test]
fn an_address_with_zeros_is_read_as_kube_proxy_reads_it() {
    let address: Address = serde_json::from_str("\"172.30.0.041\"").unwrap();
    assert_eq!(address.ip(), Some([172, 30, 0, 41].into()));
}
