//! The renderer: from events to changes of frontends.

use std::{
    collections::{BTreeSet, HashMap},
    net::{IpAddr, SocketAddr},
    num::NonZeroU16,
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    cluster_nodes::ClusterNodes,
    event::{NodePortUpdate, RendererEvent, Snapshot},
    interface_pattern::InterfacePattern,
    overrides::{Override, Overrides},
    render::{
        backend_sets::maglev_entries,
        conflict::Conflict,
        draft::Draft,
        error::RenderError,
        frontend::{Frontend, FrontendKey, FrontendKind},
        nodes::NodeAddresses,
        options::RenderOptions,
        plan::{Plan, WorkloadPlan},
        state::State,
    },
    service::Service,
    service_id::ServiceId,
};

/// Turns events into changes of frontends.
///
/// For each event: [`plan`](Self::plan) returns its changes, and [`commit`](Self::commit) makes it so once the datapath
/// has done it. Before the first Resync no other event can be planned.
///
/// Two services that claim one frontend: the older claim has it, the other waits. A claim ages
/// from the event that brought it, through every event that does not take it back.
#[derive(Debug)]
pub struct Renderer {
    pub(crate) state: State,
}

impl Renderer {
    /// A renderer without any event.
    pub fn new(options: RenderOptions) -> Self {
        Self {
            state: State::new(options),
        }
    }

    /// Plans the changes of `event`.
    ///
    /// # Errors
    ///
    /// The event cannot be rendered, or has to wait for a Resync. It has no effect then.
    pub fn plan(&self, event: RendererEvent) -> Result<Plan, RenderError> {
        let mut draft = Draft::new(&self.state);
        match event {
            RendererEvent::Resync(snapshot) => return self.plan_resync(snapshot),
            _ if !self.state.synced => return Err(RenderError::BeforeResync),
            RendererEvent::AddService(service) | RendererEvent::UpdateService(service) => {
                draft.put(Arc::new(service));
            }
            RendererEvent::DeleteService(id) => {
                if let Some((id, _)) = self.state.services.get_key_value(&id) {
                    draft.remove(id);
                }
            }
            RendererEvent::UpdateNodePortServices(update) => {
                return self.plan_node_ports(update, &self.state.options);
            }
            RendererEvent::UpdateLocalFrontendIfs(new) => {
                let frontend_ifs = (new != self.state.frontend_ifs).then_some(new);
                return Ok(Plan {
                    frontend_ifs,
                    ..draft.finish()?
                });
            }
            RendererEvent::UpdateLocalBackendIfs(new) => {
                let backend_ifs = (new != self.state.backend_ifs).then_some(new);
                return Ok(Plan {
                    backend_ifs,
                    ..draft.finish()?
                });
            }
            RendererEvent::UpdateServiceCidrs(new) => {
                let service_cidrs = (new != self.state.service_cidrs).then_some(new);
                return Ok(Plan {
                    service_cidrs,
                    ..draft.finish()?
                });
            }
            RendererEvent::UpdateNodes(new) => {
                draft.set_cluster_nodes(new);
            }
            RendererEvent::UpdateWorkloads(update) => {
                return Ok(Plan {
                    workloads: Some(WorkloadPlan::Some(update)),
                    ..draft.finish()?
                });
            }
        }
        draft.finish()
    }

    /// Returns the number of entries of the Maglev tables of the services in `event`, estimated from the number of
    /// their endpoints: a quick look, for which nothing is rendered. A service port may have tables for several sets;
    /// that of all its endpoints is counted.
    pub fn maglev_entries(&self, event: &RendererEvent) -> u64 {
        let balancing = &self.state.options.balancing;
        let services = event.services().iter();
        services
            .map(|service| maglev_entries(service, balancing))
            .sum()
    }

    /// Takes note of the addresses that this host's interfaces have before the first event; later,
    /// [`plan_host_addresses`](Self::plan_host_addresses) plans their effect.
    pub fn set_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        self.state.options.host_addresses = addresses;
    }

    /// Returns all that the renderer knows as a Resync brings it, with the services and the node addresses of a plan. The
    /// services are sorted by age, as far as it is known, and by their first claims.
    pub fn snapshot_after(&self, plan: &Plan) -> Snapshot {
        let State {
            nodes,
            services,
            frontend_ifs,
            backend_ifs,
            service_cidrs,
            cluster_nodes,
            residents,
            ..
        } = &self.state;
        let nodes = plan.nodes().unwrap_or(nodes);
        let concerned = plan.services.values().flatten();
        let others = services.iter();
        let others = others.filter(|(id, _)| !plan.services.contains_key(*id));
        let entries = others.map(|(_, entry)| entry).chain(concerned);
        let mut all: Vec<_> = entries.map(|entry| (entry.age(), &entry.told)).collect();
        all.sort_by_key(|(age, _)| *age);
        Snapshot {
            node_ips: nodes.all() | nodes.left_out(),
            services: all.into_iter().map(|(_, told)| (**told).clone()).collect(),
            frontend_ifs: frontend_ifs.clone(),
            backend_ifs: backend_ifs.clone(),
            service_cidrs: service_cidrs.clone(),
            nodes: cluster_nodes.clone(),
            workloads: residents.all().cloned().collect(),
        }
    }

    /// All services, each with the frontends that it claims.
    pub fn claims(&self) -> impl Iterator<Item = (&Arc<ServiceId>, &[(FrontendKey, Frontend)])> {
        let services = self.state.services.iter();
        services.map(|(id, entry)| (id, entry.frontends()))
    }

    /// Plans the effect of these addresses, which this host's interfaces have now, and no others.
    ///
    /// # Errors
    ///
    /// A service cannot be rendered, or has to wait for a Resync.
    pub fn plan_host_addresses(&self, addresses: BTreeSet<IpAddr>) -> Result<Plan, RenderError> {
        if !self.state.synced {
            return Err(RenderError::BeforeResync);
        }
        let nodes = &self.state.nodes;
        let options = RenderOptions {
            host_addresses: addresses,
            ..self.state.options.clone()
        };
        let same = NodePortUpdate {
            node_ips: nodes.all() | nodes.left_out(),
            services: Vec::new(),
        };
        let plan = self.plan_node_ports(same, &options)?;
        Ok(Plan {
            host_addresses: Some(options.host_addresses),
            ..plan
        })
    }

    /// Takes note of an operator's changes before the first event; later, [`plan_overrides`](Self::plan_overrides)
    /// plans their effect.
    pub fn set_overrides(&mut self, overrides: Overrides) {
        self.state.overrides = overrides;
    }

    /// Returns the operator's changes.
    pub const fn overrides(&self) -> &Overrides {
        &self.state.overrides
    }

    /// A service in its form in the events, without the operator's changes.
    pub fn told(&self, id: &ServiceId) -> Option<&Service> {
        self.state.services.get(id).map(|entry| &*entry.told)
    }

    /// Plans the effect of these overrides, which hold from now on, and no others.
    ///
    /// # Errors
    ///
    /// A service cannot be rendered, or has to wait for a Resync. Or a weight is too large for the endpoints that are
    /// there; if more of them come later, it counts for less.
    pub fn plan_overrides(&self, overrides: Overrides) -> Result<Plan, RenderError> {
        if !self.state.synced {
            return Err(RenderError::BeforeResync);
        }
        let before = &self.state.overrides;
        let mut concerned: Vec<_> = self.state.services.values().collect();
        concerned.retain(|entry| {
            let told = &entry.told;
            before.concerns(told) || overrides.concerns(told)
        });
        let local_backend_weight = self.state.options.balancing.local_backend_weight.get();
        for entry in &concerned {
            let over_limit = |overrides: &Overrides| {
                overrides
                    .port_over_limit(&entry.told, local_backend_weight)
                    .cloned()
            };
            if let Some(port) = over_limit(&overrides).filter(|_| over_limit(before).is_none()) {
                return Err(RenderError::WeightOverflow {
                    service: Arc::clone(&entry.told.id),
                    port,
                    local_backend_weight,
                });
            }
        }
        // Services claim what is new in their order.
        concerned.sort_by(|one, other| one.told.id.cmp(&other.told.id));
        let mut draft = Draft::new(&self.state);
        draft.set_overrides(overrides);
        for entry in concerned {
            draft.put(Arc::clone(&entry.told));
        }
        draft.finish()
    }

    /// Returns the number of endpoints of services that `change` applies to.
    pub fn count_meant(&self, change: &Override) -> usize {
        let services = self.state.services.values();
        let endpoints = services.flat_map(|entry| {
            let Service { id, ports, .. } = &*entry.told;
            let endpoints = ports.iter().flat_map(|port| &port.endpoints);
            endpoints.filter(|endpoint| change.means(id, endpoint))
        });
        endpoints.count()
    }

    fn plan_node_ports(
        &self,
        update: NodePortUpdate,
        options: &RenderOptions,
    ) -> Result<Plan, RenderError> {
        let NodePortUpdate { node_ips, services } = update;
        let mut draft = Draft::new(&self.state);
        let nodes_changed = draft.set_nodes(NodeAddresses::new(node_ips, options));
        for service in services {
            draft.put(Arc::new(service));
        }
        if nodes_changed {
            for entry in self.state.services.values() {
                if entry.service.has_node_ports() && !draft.concerns(&entry.service.id) {
                    draft.put(Arc::clone(&entry.told));
                }
            }
        }
        draft.finish()
    }

    fn plan_resync(&self, snapshot: Snapshot) -> Result<Plan, RenderError> {
        let Snapshot {
            node_ips,
            services,
            frontend_ifs,
            backend_ifs,
            service_cidrs,
            nodes: cluster_nodes,
            workloads,
        } = snapshot;
        let mut draft = Draft::new(&self.state);
        draft.set_nodes(NodeAddresses::new(node_ips, &self.state.options));
        draft.set_cluster_nodes(cluster_nodes);
        draft.clear();
        for service in services {
            draft.put(Arc::new(service));
        }
        Ok(Plan {
            frontend_ifs: (frontend_ifs != self.state.frontend_ifs).then_some(frontend_ifs),
            backend_ifs: (backend_ifs != self.state.backend_ifs).then_some(backend_ifs),
            service_cidrs: (service_cidrs != self.state.service_cidrs).then_some(service_cidrs),
            workloads: Some(WorkloadPlan::All(workloads)),
            ..draft.finish()?
        })
    }

    /// Takes note of the port at which the nodes answer for a service's health; `None`: at none. No
    /// packet is translated for it. Returns whether that is new.
    pub fn set_health_check_port(&mut self, id: ServiceId, port: Option<NonZeroU16>) -> bool {
        self.state.health_checks.set(id, port)
    }

    /// As [`Self::set_health_check_port`], of all services: those that are not named have none.
    pub fn set_health_check_ports(&mut self, ports: HashMap<ServiceId, NonZeroU16>) -> bool {
        self.state.health_checks.set_all(ports)
    }

    /// Returns the generation of the state: the number of commits.
    pub const fn generation(&self) -> u64 {
        self.state.revision
    }

    /// Makes a plan what the renderer knows. The plan must stem from this renderer as it is:
    /// nothing may have been committed since.
    pub fn commit(&mut self, plan: Plan) {
        self.state.commit(plan);
    }

    /// Every frontend, sorted by key.
    pub fn frontends(&self) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.state.frontends(None)
    }

    /// The frontends behind `after`, or all of them, sorted by key.
    pub fn frontends_after(
        &self,
        after: Option<FrontendKey>,
    ) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.state.frontends(after)
    }

    /// One frontend.
    pub fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        self.state.frontend(key)
    }

    /// Returns the number of frontends, of IPv4 and of IPv6.
    pub const fn frontend_counts(&self) -> [usize; 2] {
        self.state.claims.frontends()
    }

    /// The frontends that [lack local endpoints](Frontend::lacks_local_endpoints).
    pub fn frontends_without_local_endpoints(
        &self,
    ) -> impl Iterator<Item = (FrontendKey, &Frontend)> {
        self.state.without_local()
    }

    /// Returns the service's kind of address there; `None` if no service has it, or only for NodePorts. One that is a
    /// ClusterIP is that before all else.
    pub fn service_address(&self, address: IpAddr) -> Option<FrontendKind> {
        self.state.service_address(address)
    }

    /// Returns whether the service port that has the frontend at `key` has this endpoint, whatever the
    /// endpoint can do at present. A node's process reaches node ports at loopback addresses, too:
    /// what this node's own addresses have counts there.
    pub fn has_endpoint(&self, key: FrontendKey, endpoint: SocketAddr) -> bool {
        if !key.address.is_loopback() {
            return self.state.has_endpoint(key, endpoint);
        }
        let own = self.state.nodes.own().iter();
        own.filter(|address| address.is_ipv4() == key.address.is_ipv4())
            .any(|address| {
                let key = FrontendKey {
                    address: *address,
                    ..key
                };
                self.state.has_endpoint(key, endpoint)
            })
    }

    /// Every claim that waits for an older one to go, sorted by frontend.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict> {
        self.state.claims.conflicts()
    }

    /// The addresses of the nodes.
    pub const fn nodes(&self) -> &NodeAddresses {
        &self.state.nodes
    }

    /// The known addresses of this host's interfaces.
    pub const fn host_addresses(&self) -> &BTreeSet<IpAddr> {
        &self.state.options.host_addresses
    }

    /// All interfaces where clients are.
    pub const fn frontend_ifs(&self) -> &BTreeSet<InterfacePattern> {
        &self.state.frontend_ifs
    }

    /// All interfaces where backends are.
    pub const fn backend_ifs(&self) -> &BTreeSet<InterfacePattern> {
        &self.state.backend_ifs
    }

    /// All ranges of addresses that ClusterIPs are taken from.
    pub const fn service_cidrs(&self) -> &BTreeSet<IpNet> {
        &self.state.service_cidrs
    }

    /// The nodes of the cluster, by name.
    pub const fn cluster_nodes(&self) -> &ClusterNodes {
        &self.state.cluster_nodes
    }

    /// Returns true if it is an address of a node of the cluster by name.
    pub fn is_of_cluster_node(&self, address: IpAddr) -> bool {
        self.state.atlas.name_of(address).is_some()
    }

    /// The endpoints elsewhere of services in mode dsr whose node is not known, with their services,
    /// sorted: packets for these go on by SNAT.
    pub fn unlocated(&self) -> BTreeSet<(Arc<ServiceId>, IpAddr)> {
        self.state.unlocated().collect()
    }

    /// Returns whether a Resync was committed.
    pub const fn is_synced(&self) -> bool {
        self.state.synced
    }
}
