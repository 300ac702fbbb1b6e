//! The owners of an address.

use std::{net::IpAddr, num::NonZeroU16, sync::Arc};

use ipnet::IpNet;

use crate::{
    forwarding::Forwarding,
    policy::TrafficPolicy,
    protocol::Protocol,
    render::frontend::{Clients, FrontendKey, FrontendKind, Refusal},
    selection::Selection,
    service::Hostnames,
    service_id::ServiceId,
    split::Split,
    workload::{PortRange, Workload, WorkloadId},
};

/// The role of an address. Ordered: if it has several, the first counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TargetKind {
    /// A service's address inside the cluster.
    ClusterIp,
    /// An address that a load balancer announces for a service.
    LoadBalancerIp,
    /// An address that is routed to the nodes from outside, for a service.
    ExternalIp,
    /// A node's address with a service's node port.
    NodePort,
    /// A node's address with the port where a service's health check is answered.
    HealthCheckNodePort,
    /// A service that was asked for by its name, and has no address.
    Service,
    /// A pod's own address.
    Pod,
    /// A node's address with a port of a pod.
    HostPort,
    /// The address of a machine outside the cluster, with a port that it declares.
    ExternalWorkload,
    /// A node's address.
    Node,
    /// A service's address, or name, with a port that the service does not declare.
    UndefinedPort,
    /// No known owner has it.
    Unknown,
}

impl TargetKind {
    /// The name as it is shown, such as `ClusterIP`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::LoadBalancerIp => "LoadBalancerIP",
            Self::ExternalIp => "ExternalIP",
            Self::NodePort => "NodePort",
            Self::HealthCheckNodePort => "HealthCheckNodePort",
            Self::Service => "Service",
            Self::Pod => "Pod",
            Self::HostPort => "HostPort",
            Self::ExternalWorkload => "ExternalWorkload",
            Self::Node => "Node",
            Self::UndefinedPort => "UndefinedPort",
            Self::Unknown => "Unknown",
        }
    }
}

impl From<FrontendKind> for TargetKind {
    fn from(kind: FrontendKind) -> Self {
        match kind {
            FrontendKind::ClusterIp => Self::ClusterIp,
            FrontendKind::LoadBalancerIp => Self::LoadBalancerIp,
            FrontendKind::ExternalIp => Self::ExternalIp,
            FrontendKind::NodePort => Self::NodePort,
        }
    }
}

/// One that the address belongs to, or that wants it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// The role of the address for it.
    pub kind: TargetKind,
    /// True if it has the address. Otherwise it waits behind another: an older claim of the frontend,
    /// a pod that runs, or whatever comes first in the order of [`TargetKind`].
    pub in_use: bool,
    /// Its identity.
    pub who: Who,
}

/// The owner of an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Who {
    /// A port of a service.
    Service(ServiceTarget),
    /// The health check of a service whose external traffic goes to local endpoints only.
    HealthCheck {
        /// The service.
        service: Arc<ServiceId>,
        /// The port where it is answered.
        port: NonZeroU16,
    },
    /// A workload, at its own address or at one of its node's.
    Workload(Arc<Workload>),
    /// A node.
    Node {
        /// Its name, if the events contain it.
        name: Option<Arc<str>>,
        /// True if it is this one.
        own: bool,
    },
    /// A service that does not declare the port.
    UndefinedPort {
        /// The service.
        service: Arc<ServiceId>,
        /// The kind of the address for it; `None`: it was asked for by its name.
        kind: Option<FrontendKind>,
    },
}

/// A port of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceTarget {
    /// The service.
    pub service: Arc<ServiceId>,
    /// The name of its port; may be empty.
    pub port_name: Arc<str>,
    /// The port on the service's own addresses, in host byte order.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The port on the nodes' addresses, if there is one.
    pub node_port: Option<NonZeroU16>,
    /// The service's addresses inside the cluster.
    pub cluster_ips: Vec<IpAddr>,
    /// Traffic policy of its external frontends.
    pub traffic_policy: TrafficPolicy,
    /// Traffic policy of its ClusterIP frontends.
    pub internal_traffic_policy: TrafficPolicy,
    /// Session affinity in seconds since last use; 0 is off.
    pub affinity_timeout: u32,
    /// The ports whose protocol proxies are not to look into; `None`: not given.
    pub opaque_ports: Option<Arc<[PortRange]>>,
    /// Treatment of requests by proxies, as JSON.
    pub profile: Option<Arc<str>>,
    /// The hostnames of its endpoints, by address.
    pub hostnames: Option<Arc<Hostnames>>,
    /// The split of the port's new connections; `None`: its endpoints share them.
    pub split: Option<Arc<Split>>,
    /// In mode `first`, the place in the split of the backend that takes all new connections of clients on this node;
    /// `None`: none can, or the mode is another.
    pub first: Option<usize>,
    /// The frontend; `None`: the service was asked for by its name, and has no address of its own.
    pub frontend: Option<FrontendView>,
}

/// A frontend as it is rendered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FrontendView {
    /// The address, port and protocol for clients.
    pub key: FrontendKey,
    /// The kind of its address.
    pub kind: FrontendKind,
    /// The traffic policy that chose its backends.
    pub policy: TrafficPolicy,
    /// The clients whose connections it takes.
    pub clients: Clients,
    /// Outcome of a new connection while no backend is usable.
    pub refusal: Refusal,
    /// Its method of selecting a backend.
    pub selection: Selection,
    /// Forwarding of packets from outside to its backends on other nodes.
    pub forwarding: Forwarding,
    /// The clients that may use it, sorted; empty: everyone.
    pub sources: Arc<[IpNet]>,
}

/// The owner of an address, by name alone: between two targets of one owner the address does not change hands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Owner {
    /// A service, at a port that it declares or at another.
    Service(Arc<ServiceId>),
    /// A workload.
    Workload(Arc<WorkloadId>),
    /// A node, by its name if that is known.
    Node(Option<Arc<str>>),
}

impl Target {
    /// Returns the owner of the address by this target.
    pub fn owner(&self) -> Owner {
        match &self.who {
            Who::Service(ServiceTarget { service, .. })
            | Who::HealthCheck { service, .. }
            | Who::UndefinedPort { service, .. } => Owner::Service(Arc::clone(service)),
            Who::Workload(workload) => Owner::Workload(Arc::clone(&workload.id)),
            Who::Node { name, own: _ } => Owner::Node(name.clone()),
        }
    }
}
