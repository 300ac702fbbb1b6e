//! Changes of an event.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    cluster_nodes::ClusterNodes,
    interface_pattern::InterfacePattern,
    overrides::Overrides,
    render::{
        conflict::Conflict,
        entry::Entry,
        frontend::{Frontend, FrontendKey},
        locations::Locations,
        nodes::NodeAddresses,
    },
    service_id::ServiceId,
    workload::{Workload, WorkloadUpdate},
};

/// The outcome of an event, to be installed and then [committed](super::Renderer::commit), or
/// dropped: then the event had no effect.
#[derive(Debug)]
pub struct Plan {
    /// Changes for the datapath.
    pub changes: Changes,
    /// Every frontend there is, sorted by key, if the event is a Resync: what the datapath
    /// compares the kernel's maps with.
    pub snapshot: Option<Vec<(FrontendKey, Frontend)>>,
    /// The interfaces where clients are, if they change.
    pub frontend_ifs: Option<BTreeSet<InterfacePattern>>,
    /// The interfaces where backends are, if they change.
    pub backend_ifs: Option<BTreeSet<InterfacePattern>>,
    /// The ranges of addresses that ClusterIPs are taken from, if they change.
    pub service_cidrs: Option<BTreeSet<IpNet>>,
    /// The nodes of the cluster, by name, if they change.
    pub cluster_nodes: Option<ClusterNodes>,
    /// Nodes of addresses after the event, as far as they change.
    pub locations: Locations,
    /// Conflicts over the frontends of the services that the event concerns.
    pub conflicts: Vec<Conflict>,
    /// The frontends that these services claim, before the event or after it, sorted.
    pub frontends: Vec<FrontendKey>,
    /// The services that the event concerns, in their new form; `None` if they are gone.
    pub(crate) services: HashMap<Arc<ServiceId>, Option<Entry>>,
    /// Changes of workloads.
    pub(crate) workloads: Option<WorkloadPlan>,
    /// The operator's changes, if they change.
    pub(super) overrides: Option<Overrides>,
    pub(super) nodes: Option<NodeAddresses>,
    pub(super) host_addresses: Option<BTreeSet<IpAddr>>,
    pub(super) claims_made: u64,
    /// The state of the renderer that the plan starts from.
    pub(super) revision: u64,
}

/// Change of the known workloads.
#[derive(Debug)]
pub(crate) enum WorkloadPlan {
    /// These are all.
    All(Vec<Arc<Workload>>),
    /// Some of them change.
    Some(WorkloadUpdate),
}

impl Plan {
    /// The nodes, if the event contains them.
    pub const fn nodes(&self) -> Option<&NodeAddresses> {
        self.nodes.as_ref()
    }

    /// The addresses of this host's interfaces, if they change.
    pub const fn host_addresses(&self) -> Option<&BTreeSet<IpAddr>> {
        self.host_addresses.as_ref()
    }

    /// The services that the event concerns and that are there after it, each with all frontends that it claims: also
    /// those that an older claim of another service withholds.
    pub fn claims(&self) -> impl Iterator<Item = (&Arc<ServiceId>, &[(FrontendKey, Frontend)])> {
        let services = self.services.iter();
        services.filter_map(|(id, entry)| Some((id, entry.as_ref()?.frontends())))
    }
}

/// The difference between the frontends before and after an event. Each list is sorted by key,
/// and no key is in two of them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Changes {
    /// Frontends that did not exist.
    pub added: Vec<(FrontendKey, Frontend)>,
    /// Frontends that exist and become something else.
    pub changed: Vec<(FrontendKey, Frontend)>,
    /// Frontends that cease to exist.
    pub removed: Vec<FrontendKey>,
}

impl Changes {
    /// Returns whether nothing changes.
    pub const fn is_empty(&self) -> bool {
        let Self {
            added,
            changed,
            removed,
        } = self;
        added.is_empty() && changed.is_empty() && removed.is_empty()
    }
}
