//! The frontends of a case's objects, and the outcome of its flows.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
};

use shunt_kubernetes::{HostPorts, Limits, NodeView, PrimaryAddresses, translate};
use shunt_model::{
    Backend, Clients, Frontend, FrontendKind, Refusal, RenderOptions, Renderer, RendererEvent,
    Snapshot,
};

use crate::cases::{Case, Config, Flow};

/// Outcome of a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Found {
    pub(crate) verdict: &'static str,
    /// The endpoints that may answer it.
    pub(crate) endpoints: BTreeSet<String>,
    /// True if any of them sees another source than the client's.
    pub(crate) is_masqueraded: bool,
}

impl Found {
    pub(crate) const fn only(verdict: &'static str) -> Self {
        Self {
            verdict,
            endpoints: BTreeSet::new(),
            is_masqueraded: false,
        }
    }
}

/// The event that a case's objects lead to.
pub(crate) fn resync(case: &Case) -> RendererEvent {
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
        service_cidrs: config.service_cidrs.iter().flatten().copied().collect(),
        host_ports: HostPorts::new(),
        limits: Limits::default(),
    };
    let services = case.objects.services.iter().filter_map(|service| {
        let slices = case.objects.endpoint_slices.iter();
        let own = slices.filter(|slice| slice.service.as_ref() == Some(&service.id));
        translate(service, own, &view).service
    });
    RendererEvent::Resync(Snapshot {
        node_ips: config.node_port_addresses(),
        services: services.collect(),
        service_cidrs: view.service_cidrs.clone(),
        ..Snapshot::default()
    })
}

/// A renderer on the node of a case.
pub(crate) fn renderer(config: &Config) -> Renderer {
    Renderer::new(RenderOptions {
        node_ips: config.local_ips.clone(),
        ..RenderOptions::default()
    })
}

/// The node, with all that follows from the objects.
pub(crate) struct Node<'a> {
    config: &'a Config,
    renderer: Renderer,
}

impl<'a> Node<'a> {
    pub(crate) fn new(case: &'a Case) -> Self {
        let mut renderer = renderer(&case.config);
        let plan = renderer.plan(resync(case)).unwrap();
        renderer.commit(plan);
        Self {
            config: &case.config,
            renderer,
        }
    }

    /// Returns the outcome of a flow here.
    pub(crate) fn found(&self, flow: &Flow) -> Found {
        let (key, config) = (flow.key(), self.config);
        let is_host = config.is_of_node(flow.source);
        let is_here = is_host || config.is_of_pod(flow.source);
        if let Some(frontend) = self.renderer.frontend(key)
            && (is_here || frontend.clients == Clients::Everyone)
        {
            return self.of_frontend(frontend, flow.source, is_here);
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
                return self.of_frontend(frontend, flow.source, true);
            }
        }
        if self.renderer.service_address(flow.destination) == Some(FrontendKind::ClusterIp) {
            return Found::only("reject");
        }
        let mut ranges = config.service_cidrs.iter().flatten();
        if ranges.any(|range| range.contains(&flow.destination)) {
            return Found::only("drop");
        }
        Found::only("untouched")
    }

    /// Returns a frontend's outcome for a client, which may be one of this node.
    fn of_frontend(&self, frontend: &Frontend, client: IpAddr, is_here: bool) -> Found {
        let sources = &frontend.sources;
        if !sources.is_empty() && !sources.iter().any(|range| range.contains(&client)) {
            return Found::only("drop");
        }
        let kind = frontend.kind;
        let frontend = match &frontend.this_node {
            Some(other) if is_here => other,
            _ => frontend,
        };
        let backends = frontend.backends.backends.iter();
        let taking: Vec<&Backend> = backends.filter(|backend| backend.weight > 0).collect();
        if taking.is_empty() {
            return Found::only(match frontend.refusal {
                Refusal::Reject => "reject",
                Refusal::Drop => "drop",
            });
        }
        let is_masqueraded = taking
            .iter()
            .any(|backend| self.is_masqueraded(kind, backend, client));
        let endpoints = taking
            .iter()
            .map(|backend| SocketAddr::new(backend.ip, backend.port).to_string());
        Found {
            verdict: "dnat",
            endpoints: endpoints.collect(),
            is_masqueraded,
        }
    }

    /// Returns whether the backend sees another source than the client: docs/local-pods.md. Clients of these
    /// cases are known by the cluster's range.
    fn is_masqueraded(&self, kind: FrontendKind, backend: &Backend, client: IpAddr) -> bool {
        // Its source is the node's own, and chosen for the backend.
        if self.config.is_of_node(client) {
            return false;
        }
        if backend.ip == client {
            return true;
        }
        let is_cluster_ip = kind == FrontendKind::ClusterIp;
        if is_cluster_ip && self.config.masquerade_all {
            return true;
        }
        let is_excused = is_cluster_ip && self.config.is_of_pod(client);
        !backend.local && !is_excused
    }
}
