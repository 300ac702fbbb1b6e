//! The backends that may answer at each frontend, by the events so far.

use std::{
    collections::BTreeMap,
    fmt,
    net::{IpAddr, SocketAddr},
};

use shunt_tests::{Transport, addresses};

use crate::event::{Backend, Event, Protocol, Service, ServiceId, TrafficPolicy};

/// The place that a connection comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Client {
    /// The client pod on this node.
    Pod,
    /// A process of this node's own.
    Node,
    /// The client outside the cluster.
    Outside,
}

impl Client {
    /// Returns whether it is on this node.
    pub(crate) const fn is_here(self) -> bool {
        matches!(self, Self::Pod | Self::Node)
    }
}

impl fmt::Display for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Pod => "pod-c",
            Self::Node => "node",
            Self::Outside => "outside",
        })
    }
}

/// The kind of a frontend's address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    ClusterIp,
    NodePort,
    ExternalIp,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::ExternalIp => "ExternalIP",
        })
    }
}

/// The weight of each backend that may get new connections.
pub(crate) type Weights = BTreeMap<SocketAddr, u64>;

/// A frontend as one kind of client finds it.
#[derive(Debug, Clone)]
pub(crate) struct Frontend {
    pub(crate) address: SocketAddr,
    pub(crate) transport: Transport,
    pub(crate) kind: Kind,
    pub(crate) service: ServiceId,
    pub(crate) weights: Weights,
}

impl fmt::Display for Frontend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            transport,
            kind,
            service,
            weights: _,
        } = self;
        write!(f, "{address}/{transport} ({kind} of {service})")
    }
}

#[derive(Debug, Clone)]
struct Known {
    service: Service,
    /// The nodes at which its node ports are open.
    node_ips: Vec<IpAddr>,
}

/// The services that are in force.
#[derive(Debug, Clone, Default)]
pub(crate) struct Model {
    node_ips: Vec<IpAddr>,
    services: BTreeMap<ServiceId, Known>,
}

impl Model {
    /// Applies one more event.
    pub(crate) fn apply(&mut self, event: &Event) {
        match event {
            Event::Resync { node_ips, services } => {
                self.node_ips.clone_from(node_ips);
                self.services.clear();
                services.iter().for_each(|service| self.put(service));
            }
            Event::AddService { service } | Event::UpdateService { service } => self.put(service),
            Event::DeleteService { id } => {
                self.services.remove(id);
            }
            Event::UpdateNodePortServices { node_ips, services } => {
                self.node_ips.clone_from(node_ips);
                for known in self.services.values_mut() {
                    known.node_ips.retain(|ip| node_ips.contains(ip));
                }
                services.iter().for_each(|service| self.put(service));
            }
            Event::Interfaces => {}
        }
    }

    fn put(&mut self, service: &Service) {
        let known = Known {
            service: service.clone(),
            node_ips: self.node_ips.clone(),
        };
        self.services.insert(service.spec.id.clone(), known);
    }

    pub(crate) fn services(&self) -> impl Iterator<Item = &Service> {
        self.services.values().map(|known| &known.service)
    }

    /// Every frontend that this client can use, by the address that it connects to.
    pub(crate) fn frontends(&self, client: Client) -> Vec<Frontend> {
        self.services
            .values()
            .flat_map(|known| known.frontends(client))
            .collect()
    }

    /// The backends that may answer this client here; none if there is no such frontend.
    pub(crate) fn weights(
        &self,
        client: Client,
        address: SocketAddr,
        transport: Transport,
    ) -> Weights {
        let same = |found: &Frontend| found.address == address && found.transport == transport;
        self.frontends(client)
            .into_iter()
            .find(same)
            .map(|found| found.weights)
            .unwrap_or_default()
    }
}

impl Known {
    fn frontends(&self, client: Client) -> Vec<Frontend> {
        let spec = &self.service.spec;
        let mut frontends = Vec::new();
        for (name, port) in &spec.ports {
            let transport = match port.protocol {
                Protocol::Tcp => Transport::Tcp,
                Protocol::Udp => Transport::Udp,
            };
            let backends = spec.backends.get(name).map_or(&[][..], Vec::as_slice);
            // A client on this node is served as under policy Cluster.
            let only_local = !client.is_here() && spec.traffic_policy == TrafficPolicy::Local;
            let mut add = |kind, ip, port| {
                frontends.push(Frontend {
                    address: SocketAddr::new(ip, port),
                    transport,
                    kind,
                    service: spec.id.clone(),
                    weights: weights(backends, only_local && kind != Kind::ClusterIp),
                });
            };
            if client.is_here() {
                spec.cluster_ips
                    .iter()
                    .for_each(|ip| add(Kind::ClusterIp, *ip, port.port));
            }
            for ip in &self.node_ips {
                // Another node's port is for clients on this node; others go to that node itself.
                let open = client.is_here() || *ip == addresses::NODE;
                if open && port.node_port != 0 {
                    add(Kind::NodePort, *ip, port.node_port);
                }
            }
            spec.external_ips
                .iter()
                .for_each(|ip| add(Kind::ExternalIp, *ip, port.port));
        }
        frontends
    }
}

fn weights(backends: &[Backend], only_local: bool) -> Weights {
    let usable = backends.iter().filter(|backend| backend.weight > 0);
    usable
        .filter(|backend| backend.local || !only_local)
        .map(|backend| {
            (
                SocketAddr::new(backend.ip, backend.port),
                u64::from(backend.weight),
            )
        })
        .collect()
}
