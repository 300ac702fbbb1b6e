//! The renderer's state.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    cluster_nodes::ClusterNodes,
    interface_pattern::InterfacePattern,
    overrides::Overrides,
    render::{
        claims::Claims,
        entry::Entry,
        followers::Followers,
        frontend::{Frontend, FrontendKey, FrontendKind},
        health_check_ports::HealthCheckPorts,
        locations::Atlas,
        members::Members,
        nodes::NodeAddresses,
        notable::Notable,
        options::RenderOptions,
        plan::{Plan, WorkloadPlan},
        residents::Residents,
    },
    service_id::ServiceId,
};

/// Everything known from events so far.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) options: RenderOptions,
    pub(crate) nodes: NodeAddresses,
    pub(crate) services: HashMap<Arc<ServiceId>, Entry>,
    /// The services with splits that name a service.
    pub(crate) followers: Followers,
    pub(crate) claims: Claims,
    pub(super) claims_made: u64,
    /// Counts the commits.
    pub(crate) revision: u64,
    /// All interfaces where clients are.
    pub(super) frontend_ifs: BTreeSet<InterfacePattern>,
    /// All interfaces where backends are.
    pub(super) backend_ifs: BTreeSet<InterfacePattern>,
    /// All ranges of addresses that ClusterIPs are taken from.
    pub(super) service_cidrs: BTreeSet<IpNet>,
    /// The nodes of the cluster, by name.
    pub(super) cluster_nodes: ClusterNodes,
    /// Nodes of addresses.
    pub(crate) atlas: Atlas,
    /// The services that have an address behind them.
    pub(crate) members: Members,
    /// Services and frontends that need attention.
    notable: Notable,
    /// Workloads at addresses that are no service's.
    pub(crate) residents: Residents,
    /// The ports where nodes answer for the health of services.
    pub(crate) health_checks: HealthCheckPorts,
    /// The operator's changes.
    pub(crate) overrides: Overrides,
    /// True if a Resync was committed.
    pub(super) synced: bool,
}

impl State {
    /// The state of a renderer without any event.
    pub(super) fn new(options: RenderOptions) -> Self {
        Self {
            options,
            nodes: NodeAddresses::default(),
            services: HashMap::new(),
            followers: Followers::default(),
            claims: Claims::default(),
            claims_made: 0,
            revision: 0,
            frontend_ifs: BTreeSet::new(),
            backend_ifs: BTreeSet::new(),
            service_cidrs: BTreeSet::new(),
            cluster_nodes: ClusterNodes::default(),
            atlas: Atlas::default(),
            members: Members::default(),
            notable: Notable::default(),
            residents: Residents::default(),
            health_checks: HealthCheckPorts::default(),
            overrides: Overrides::default(),
            synced: false,
        }
    }

    /// Makes a plan what is known. The plan must stem from this state: nothing may have been
    /// committed since.
    pub(super) fn commit(&mut self, plan: Plan) {
        let Plan {
            changes: _,
            snapshot,
            frontend_ifs,
            backend_ifs,
            service_cidrs,
            cluster_nodes,
            locations: _,
            conflicts: _,
            frontends: _,
            services,
            workloads,
            overrides,
            nodes,
            host_addresses,
            claims_made,
            revision,
        } = plan;
        debug_assert_eq!(revision, self.revision, "the plan stems from another state");
        for (id, new) in services {
            // The identity that is known stays in its place in memory, which the indexes share.
            let (id, old) = match self.services.remove_entry(&id) {
                Some((known, old)) => (known, Some(old)),
                None => (id, None),
            };
            self.atlas.replace(old.as_ref(), new.as_ref());
            let [before, after] =
                [&old, &new].map(|entry| entry.as_ref().map(|entry| &*entry.service));
            self.followers.replace(before, after);
            self.members.replace(&id, before, after);
            self.notable.replace(&id, old.as_ref(), new.as_ref());
            if let Some(old) = old {
                for (key, age, _) in old.claimed() {
                    self.claims.remove(key, age);
                }
            }
            if let Some(new) = new {
                for (key, age, _) in new.claimed() {
                    self.claims.insert(key, age, &id);
                }
                self.services.insert(id, new);
            }
        }
        if let Some(nodes) = nodes {
            self.nodes = nodes;
        }
        if let Some(host_addresses) = host_addresses {
            self.options.host_addresses = host_addresses;
        }
        if let Some(frontend_ifs) = frontend_ifs {
            self.frontend_ifs = frontend_ifs;
        }
        if let Some(backend_ifs) = backend_ifs {
            self.backend_ifs = backend_ifs;
        }
        if let Some(service_cidrs) = service_cidrs {
            self.service_cidrs = service_cidrs;
        }
        if let Some(cluster_nodes) = cluster_nodes {
            self.atlas.set_nodes(&cluster_nodes);
            self.cluster_nodes = cluster_nodes;
        }
        if let Some(overrides) = overrides {
            self.overrides = overrides;
        }
        match workloads {
            Some(WorkloadPlan::All(all)) => self.residents = Residents::of(all),
            Some(WorkloadPlan::Some(update)) => self.residents.update(update),
            None => {}
        }
        self.synced |= snapshot.is_some();
        self.claims_made = claims_made;
        self.revision += 1;
    }

    /// The frontends behind `after`, or all of them, sorted by key.
    pub(super) fn frontends(
        &self,
        after: Option<FrontendKey>,
    ) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.claims
            .holders(after)
            .filter_map(|(key, id)| Some((key, self.services.get(id)?.frontend(key)?)))
    }

    /// The frontends that lack local endpoints.
    pub(super) fn without_local(&self) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        let claims = self.notable.without_local();
        claims.filter_map(|(key, id)| {
            let (_, holder) = self.claims.of(key).next()?;
            let frontend = self.services.get(id)?.frontend(key)?;
            (holder == id).then_some((key, frontend))
        })
    }

    /// Returns whether the service port that has the frontend at `key` has this endpoint.
    pub(super) fn has_endpoint(&self, key: FrontendKey, endpoint: SocketAddr) -> bool {
        let holder = self.claims.of(key).next();
        let entry = holder.and_then(|(_, id)| self.services.get(id));
        let set = entry.and_then(|entry| Some((entry, &entry.frontend(key)?.backends)));
        set.is_some_and(|(entry, set)| {
            entry
                .endpoints_of(&set.port)
                .any(|known| SocketAddr::new(known.ip, known.port) == endpoint)
        })
    }

    /// Returns the kind of a service's address: of the kinds of the frontends there ClusterIP, or
    /// else another one; `None` if there are none, or only NodePorts.
    pub(super) fn service_address(&self, address: IpAddr) -> Option<FrontendKind> {
        let kinds = self.claims.at(address).filter_map(|(key, id)| {
            let kind = self.services.get(id)?.frontend(key)?.kind;
            (kind != FrontendKind::NodePort).then_some(kind)
        });
        kinds.min_by_key(|kind| *kind != FrontendKind::ClusterIp)
    }

    /// The endpoints elsewhere of services in mode dsr whose node is not known.
    pub(super) fn unlocated(&self) -> impl Iterator<Item = (Arc<ServiceId>, IpAddr)> {
        let services = self.notable.dsr().filter_map(|id| self.services.get(id));
        let endpoints = services.flat_map(|entry| {
            let endpoints = entry.endpoints();
            endpoints.map(move |endpoint| (&entry.service.id, endpoint))
        });
        endpoints
            .filter(|(_, endpoint)| {
                !endpoint.local
                    && self
                        .atlas
                        .node_of(endpoint.ip, &self.cluster_nodes)
                        .is_none()
            })
            .map(|(id, endpoint)| (Arc::clone(id), endpoint.ip))
    }

    /// One frontend.
    pub(crate) fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        let (_, id) = self.claims.of(key).next()?;
        self.services.get(id)?.frontend(key)
    }
}
