//! The events.

use std::{collections::BTreeSet, fmt, net::IpAddr, slice, sync::Arc};

use ipnet::IpNet;

use crate::{
    cluster_nodes::ClusterNodes,
    escaped::Escaped,
    interface_pattern::InterfacePattern,
    kind::EventKind,
    service::Service,
    service_id::ServiceId,
    workload::{Workload, WorkloadUpdate},
};

/// One message to the renderer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RendererEvent {
    /// Everything there is; what is not in it is gone.
    Resync(Snapshot),
    /// A service that is new, or is to be replaced.
    AddService(Service),
    /// A service in its new form.
    UpdateService(Service),
    /// A service that is gone; it may be unknown.
    DeleteService(ServiceId),
    /// The nodes of the cluster, and services that the change concerns.
    UpdateNodePortServices(NodePortUpdate),
    /// All interfaces where clients are.
    UpdateLocalFrontendIfs(BTreeSet<InterfacePattern>),
    /// All interfaces where backends are.
    UpdateLocalBackendIfs(BTreeSet<InterfacePattern>),
    /// All ranges of addresses that ClusterIPs are taken from, as in [`Snapshot::service_cidrs`].
    UpdateServiceCidrs(BTreeSet<IpNet>),
    /// The nodes of the cluster, by name: all that there are.
    UpdateNodes(ClusterNodes),
    /// Workloads at addresses that are no service's: the new ones, and those that are gone.
    UpdateWorkloads(WorkloadUpdate),
}

/// A complete description of what is to be translated.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Snapshot {
    /// The addresses of all nodes of the cluster; also those that [carry
    /// nothing](crate::NodeAddresses::left_out).
    pub node_ips: BTreeSet<IpAddr>,
    /// All services, each identity once.
    pub services: Vec<Service>,
    /// All interfaces where clients are.
    pub frontend_ifs: BTreeSet<InterfacePattern>,
    /// All interfaces where backends are.
    pub backend_ifs: BTreeSet<InterfacePattern>,
    /// All ranges of addresses that ClusterIPs are taken from, of both families, without the bits
    /// that they leave open: an address in them is a service's, or unused. They may overlap. None
    /// has a length of 0.
    pub service_cidrs: BTreeSet<IpNet>,
    /// The nodes of the cluster, by name.
    pub nodes: ClusterNodes,
    /// Workloads at addresses that are no service's, each identity once.
    pub workloads: Vec<Arc<Workload>>,
}

/// A change of the cluster's nodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodePortUpdate {
    /// The addresses of all nodes of the cluster; also those that [carry
    /// nothing](crate::NodeAddresses::left_out).
    pub node_ips: BTreeSet<IpAddr>,
    /// Services in their new form, each identity once; others stay as they are.
    pub services: Vec<Service>,
}

/// The subject of an event, for display: its name and a service, [escaped](Escaped).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    kind: EventKind,
    service: Option<Arc<ServiceId>>,
}

impl Topic {
    /// The service, if it is about one alone.
    pub const fn service(&self) -> Option<&Arc<ServiceId>> {
        self.service.as_ref()
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, service } = self;
        f.write_str(kind.name())?;
        match service {
            Some(id) => write!(f, " {}", Escaped(id)),
            None => Ok(()),
        }
    }
}

impl RendererEvent {
    /// The event's name and the service that it is about, if it is about one.
    pub fn subject(&self) -> Topic {
        let service = match self {
            Self::AddService(service) | Self::UpdateService(service) => {
                Some(Arc::clone(&service.id))
            }
            Self::DeleteService(id) => Some(Arc::new(id.clone())),
            Self::Resync(_)
            | Self::UpdateNodePortServices(_)
            | Self::UpdateLocalFrontendIfs(_)
            | Self::UpdateLocalBackendIfs(_)
            | Self::UpdateServiceCidrs(_)
            | Self::UpdateNodes(_)
            | Self::UpdateWorkloads(_) => None,
        };
        Topic {
            kind: self.kind(),
            service,
        }
    }

    /// The services that it has in their new form.
    pub const fn services(&self) -> &[Service] {
        match self {
            Self::Resync(snapshot) => snapshot.services.as_slice(),
            Self::AddService(service) | Self::UpdateService(service) => slice::from_ref(service),
            Self::UpdateNodePortServices(update) => update.services.as_slice(),
            Self::DeleteService(_)
            | Self::UpdateLocalFrontendIfs(_)
            | Self::UpdateLocalBackendIfs(_)
            | Self::UpdateServiceCidrs(_)
            | Self::UpdateNodes(_)
            | Self::UpdateWorkloads(_) => &[],
        }
    }

    /// Returns the kind of the event.
    pub const fn kind(&self) -> EventKind {
        match self {
            Self::Resync(_) => EventKind::Resync,
            Self::AddService(_) => EventKind::AddService,
            Self::UpdateService(_) => EventKind::UpdateService,
            Self::DeleteService(_) => EventKind::DeleteService,
            Self::UpdateNodePortServices(_) => EventKind::UpdateNodePortServices,
            Self::UpdateLocalFrontendIfs(_) => EventKind::UpdateLocalFrontendIfs,
            Self::UpdateLocalBackendIfs(_) => EventKind::UpdateLocalBackendIfs,
            Self::UpdateServiceCidrs(_) => EventKind::UpdateServiceCidrs,
            Self::UpdateNodes(_) => EventKind::UpdateNodes,
            Self::UpdateWorkloads(_) => EventKind::UpdateWorkloads,
        }
    }
}
