//! What the renderer knows.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    cluster_nodes::ClusterNodes,
    endpoint::Endpoint,
    interface_pattern::InterfacePattern,
    render::{
        claims::{Age, Claims},
        entry::Entry,
        frontend::{Frontend, FrontendKey, FrontendKind},
        locations::Atlas,
        nodes::NodeAddresses,
        options::RenderOptions,
        plan::Plan,
    },
    service_id::ServiceId,
};

/// Everything that events have told so far.
#[derive(Debug)]
pub(super) struct State {
    pub(super) options: RenderOptions,
    pub(super) nodes: NodeAddresses,
    pub(super) services: HashMap<Arc<ServiceId>, Entry>,
    pub(super) claims: Claims,
    pub(super) last_age: Age,
    /// Counts the commits.
    pub(super) revision: u64,
    /// All interfaces where clients are.
    pub(super) frontend_ifs: BTreeSet<InterfacePattern>,
    /// All interfaces where backends are.
    pub(super) backend_ifs: BTreeSet<InterfacePattern>,
    /// All ranges of addresses that ClusterIPs are taken from.
    pub(super) service_cidrs: BTreeSet<IpNet>,
    /// The nodes of the cluster, by name.
    pub(super) cluster_nodes: ClusterNodes,
    /// Where addresses are.
    pub(super) atlas: Atlas,
    /// Whether a Resync was committed.
    pub(super) synced: bool,
}

impl State {
    /// Of a renderer that was told nothing.
    pub(super) fn new(options: RenderOptions) -> Self {
        Self {
            options,
            nodes: NodeAddresses::default(),
            services: HashMap::new(),
            claims: Claims::default(),
            last_age: 0,
            revision: 0,
            frontend_ifs: BTreeSet::new(),
            backend_ifs: BTreeSet::new(),
            service_cidrs: BTreeSet::new(),
            cluster_nodes: ClusterNodes::default(),
            atlas: Atlas::default(),
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
            services,
            nodes,
            last_age,
            revision,
        } = plan;
        debug_assert_eq!(revision, self.revision, "the plan stems from another state");
        for (id, new) in services {
            let old = self.services.remove(&id);
            self.atlas.replace(old.as_ref(), new.as_ref());
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
        self.synced |= snapshot.is_some();
        self.last_age = last_age;
        self.revision += 1;
    }

    /// Every frontend, sorted by key.
    pub(super) fn frontends(&self) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.claims
            .holders()
            .filter_map(|(key, id)| Some((key, self.services.get(id)?.frontend(key)?)))
    }

    /// Whether the service port that has the frontend at `key` has this endpoint.
    pub(super) fn has_endpoint(&self, key: FrontendKey, endpoint: SocketAddr) -> bool {
        let holder = self.claims.of(key).next();
        let entry = holder.and_then(|(_, id)| self.services.get(id));
        let set = entry.and_then(|entry| Some((entry, &entry.frontend(key)?.backends)));
        set.is_some_and(|(entry, set)| {
            let mut ports = entry.service.ports.iter();
            ports
                .find(|port| port.name == set.port)
                .is_some_and(|port| {
                    let address = |endpoint: &Endpoint| SocketAddr::new(endpoint.ip, endpoint.port);
                    port.endpoints
                        .iter()
                        .any(|known| address(known) == endpoint)
                })
        })
    }

    /// Whose address it is: of the kinds of the frontends there ClusterIP, or else another one;
    /// `None` if there are none, or only NodePorts.
    pub(super) fn service_address(&self, address: IpAddr) -> Option<FrontendKind> {
        let kinds = self.claims.at(address).filter_map(|(key, id)| {
            let kind = self.services.get(id)?.frontend(key)?.kind;
            (kind != FrontendKind::NodePort).then_some(kind)
        });
        kinds.min_by_key(|kind| *kind != FrontendKind::ClusterIp)
    }

    /// The endpoints elsewhere of services in mode dsr whose node is not known.
    pub(super) fn unlocated(&self) -> impl Iterator<Item = (Arc<ServiceId>, IpAddr)> {
        let services = self.services.values().filter(|entry| entry.has_dsr());
        let endpoints = services.flat_map(|entry| {
            let ports = entry.service.ports.iter();
            let endpoints = ports.flat_map(|port| &port.endpoints);
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
    pub(super) fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        let (_, id) = self.claims.of(key).next()?;
        self.services.get(id)?.frontend(key)
    }
}
