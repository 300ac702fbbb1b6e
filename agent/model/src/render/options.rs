//! The renderer's options, set once at its start.

use std::{collections::BTreeSet, net::IpAddr, num::NonZeroU32};

use crate::{
    forwarding::Forwarding, maglev::EntriesPerBackend, render::frontend::FrontendKind,
    selection::Selection, service::Service,
};

/// The renderer's settings.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RenderOptions {
    /// This node's own addresses. Empty: those node addresses of the events that are among
    /// `host_addresses`.
    pub node_ips: BTreeSet<IpAddr>,
    /// The addresses of this host's interfaces, as they are at the start.
    pub host_addresses: BTreeSet<IpAddr>,
    /// Defaults of selection, forwarding and source.
    pub balancing: Balancing,
}

/// Selection, forwarding and source of connections where a service does not set them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Balancing {
    /// Multiplies the weight of local backends, unless frontends of their port have a Maglev table:
    /// that has to be the same on all nodes.
    pub local_backend_weight: NonZeroU32,
    /// Selection by frontends that are reached from outside: NodePort, ExternalIP, load balancer.
    pub external_selection: Selection,
    /// The size of Maglev tables.
    pub maglev_entries: EntriesPerBackend,
    /// Forwarding of packets from outside to backends on other nodes.
    pub forwarding: Forwarding,
    /// True if connections from outside go on to this node's backends from this node's address, too.
    pub masquerade: bool,
}

impl Balancing {
    /// Returns the selection by a frontend of this kind: that of the service, or otherwise the
    /// default of external ones, or at random.
    pub(super) fn selection(&self, service: &Service, kind: FrontendKind) -> Selection {
        let default = match kind {
            FrontendKind::ClusterIp => Selection::default(),
            FrontendKind::NodePort | FrontendKind::ExternalIp | FrontendKind::LoadBalancerIp => {
                self.external_selection
            }
        };
        service.selection.unwrap_or(default)
    }
}

impl Default for Balancing {
    fn default() -> Self {
        Self {
            local_backend_weight: NonZeroU32::MIN,
            external_selection: Selection::default(),
            maglev_entries: EntriesPerBackend::default(),
            forwarding: Forwarding::default(),
            masquerade: false,
        }
    }
}
