//! An event as it comes in.

use crate::unchecked::{
    service::{Entries, Id, Service},
    text::Text,
    workload::{Workload, WorkloadId},
};

/// An event, of one of the kinds that [`EventKind`](crate::EventKind) lists.
#[derive(Debug)]
pub enum Event<'a> {
    /// Everything there is.
    Resync(Snapshot<'a>),
    /// A service that is new, or is to be replaced.
    AddService(Service<'a>),
    /// A service in its new form.
    UpdateService(Service<'a>),
    /// A service that is gone.
    DeleteService(Id<'a>),
    /// The nodes of the cluster, and services that the change concerns.
    UpdateNodePortServices(NodePortUpdate<'a>),
    /// All interfaces where clients are.
    UpdateLocalFrontendIfs(Vec<Text<'a>>),
    /// All interfaces where backends are.
    UpdateLocalBackendIfs(Vec<Text<'a>>),
    /// All ranges of addresses that ClusterIPs are taken from.
    UpdateServiceCidrs(Vec<Text<'a>>),
    /// The addresses of the cluster's nodes, by the node's name.
    UpdateNodes(Entries<'a, Vec<Text<'a>>>),
    /// Workloads at addresses that are no service's.
    UpdateWorkloads(WorkloadUpdate<'a>),
}

/// A snapshot, or a piece of one.
#[derive(Debug, Default)]
pub struct Snapshot<'a> {
    /// The addresses of all nodes of the cluster.
    pub node_ips: Vec<Text<'a>>,
    /// All services.
    pub services: Vec<Service<'a>>,
    /// All interfaces where clients are.
    pub frontend_ifs: Vec<Text<'a>>,
    /// All interfaces where backends are.
    pub backend_ifs: Vec<Text<'a>>,
    /// All ranges of addresses that ClusterIPs are taken from.
    pub service_cidrs: Vec<Text<'a>>,
    /// The addresses of the cluster's nodes, by the node's name.
    pub nodes: Entries<'a, Vec<Text<'a>>>,
    /// Workloads at addresses that are no service's.
    pub workloads: Vec<Workload<'a>>,
}

/// A change of the cluster's nodes.
#[derive(Debug)]
pub struct NodePortUpdate<'a> {
    /// The addresses of all nodes of the cluster.
    pub node_ips: Vec<Text<'a>>,
    /// Services in their new form.
    pub services: Vec<Service<'a>>,
}

/// A change of what runs at addresses that are no service's.
#[derive(Debug)]
pub struct WorkloadUpdate<'a> {
    /// Workloads that are new, or in their new form.
    pub workloads: Vec<Workload<'a>>,
    /// Workloads that are gone.
    pub gone: Vec<WorkloadId<'a>>,
}
