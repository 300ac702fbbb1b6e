//! What an event would change.

use std::{
    collections::{BTreeSet, HashMap},
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
    service::Service,
    service_id::ServiceId,
    workload::{Workload, WorkloadUpdate},
};

/// The outcome of an event, to be installed and then [committed](super::Renderer::commit), or
/// dropped: then the event had no effect.
#[derive(Debug)]
pub struct Plan {
    /// What the datapath has to change.
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
    /// Where addresses are then, as far as that changes.
    pub locations: Locations,
    /// Who waits for whom on the frontends of the services that the event concerns.
    pub conflicts: Vec<Conflict>,
    /// The frontends that these services claim, before the event or after it, sorted.
    pub frontends: Vec<FrontendKey>,
    /// The services that the event concerns, in their new form; `None` if they are gone.
    pub(crate) services: HashMap<Arc<ServiceId>, Option<Entry>>,
    /// What is new of workloads.
    pub(crate) workloads: Option<WorkloadPlan>,
    /// What an operator changes, if that changes.
    pub(super) overrides: Option<Overrides>,
    pub(super) nodes: Option<NodeAddresses>,
    pub(super) claims_made: u64,
    /// Which state of the renderer the plan starts from.
    pub(super) revision: u64,
}

/// What becomes of the workloads that are known.
#[derive(Debug)]
pub(crate) enum WorkloadPlan {
    /// These are all.
    All(Vec<Arc<Workload>>),
    /// Some of them change.
    Some(WorkloadUpdate),
}

impl Plan {
    /// The nodes, if the event says who they are.
    pub const fn nodes(&self) -> Option<&NodeAddresses> {
        self.nodes.as_ref()
    }

    /// A service that the event concerns and that is there after it, as events say it.
    pub fn told(&self, id: &ServiceId) -> Option<&Arc<Service>> {
        let entry = self.services.get(id)?.as_ref()?;
        Some(&entry.told)
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
