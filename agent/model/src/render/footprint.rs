//! Dependencies between events.

use std::collections::HashSet;

use crate::{
    event::RendererEvent,
    protocol::Protocol,
    render::{followers, frontend::FrontendKey, plan::Plan},
    service_id::ServiceId,
};

/// The subject of an event, and the frontends that it may give or take. Of two events whose footprints do not
/// [meet](Self::meets), either may take effect first: the result is the same.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Footprint {
    /// It is about all that there is, as the nodes of the cluster are.
    is_all: bool,
    parts: HashSet<Part>,
    /// The ports of the services that it brings, and which of these are on the nodes' addresses, also on
    /// those of nodes that are still to come.
    ports: HashSet<(Protocol, u16)>,
    node_ports: HashSet<(Protocol, u16)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Part {
    Service(ServiceId),
    /// One that a service claims: the older of two claims has it.
    Frontend(FrontendKey),
    FrontendIfs,
    BackendIfs,
    ServiceCidrs,
    Workloads,
}

impl Footprint {
    /// That of an event which is about everything.
    pub fn all() -> Self {
        Self {
            is_all: true,
            ..Self::default()
        }
    }

    /// That of `event`, which leads to `plan`.
    pub fn of(event: &RendererEvent, plan: &Plan) -> Self {
        let about = match event {
            RendererEvent::Resync(_)
            | RendererEvent::UpdateNodePortServices(_)
            | RendererEvent::UpdateNodes(_) => return Self::all(),
            RendererEvent::AddService(service) | RendererEvent::UpdateService(service) => {
                Part::Service((*service.id).clone())
            }
            // An event before this one may be what brings it.
            RendererEvent::DeleteService(id) => Part::Service(id.clone()),
            RendererEvent::UpdateLocalFrontendIfs(_) => Part::FrontendIfs,
            RendererEvent::UpdateLocalBackendIfs(_) => Part::BackendIfs,
            RendererEvent::UpdateServiceCidrs(_) => Part::ServiceCidrs,
            RendererEvent::UpdateWorkloads(_) => Part::Workloads,
        };
        let frontends = plan.frontends.iter().copied().map(Part::Frontend);
        let ports = || event.services().iter().flat_map(|service| &service.ports);
        // A service whose endpoints a split has may change at any time.
        let named = event.services().iter().flat_map(followers::names);
        let named = named.map(|id| Part::Service((**id).clone()));
        let node_ports = ports().filter_map(|port| Some((port.protocol, port.node_port?.get())));
        let node_ports: HashSet<_> = node_ports.collect();
        let own = ports().map(|port| (port.protocol, port.port));
        Self {
            is_all: false,
            parts: frontends.chain(named).chain([about]).collect(),
            ports: own.chain(node_ports.iter().copied()).collect(),
            node_ports,
        }
    }

    /// Returns whether the two events have to take effect in their order.
    pub fn meets(&self, other: &Self) -> bool {
        self.is_all
            || other.is_all
            || !self.parts.is_disjoint(&other.parts)
            || !self.node_ports.is_disjoint(&other.ports)
            || !self.ports.is_disjoint(&other.node_ports)
    }
}
