//! From what the watches tell to events, one at a time. Pure of any waiting: whoever drives it says
//! what is new and what became of an event.

mod node;
mod notify;
mod peers;
mod take;
mod tell;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::{Instant, SystemTime},
};

use foldhash::quality::RandomState;
use ipnet::IpNet;
use shunt_model::{ClusterNodes, Conflict, Forwarding, RendererEvent, ServiceId};

use crate::{
    runtime::{
        circumstances::Circumstances,
        cluster_state::ClusterMonitor,
        contact::Contact,
        health::{ByFamily, Pending as Waiting},
        reports::Reports,
    },
    source::kubernetes::{
        links::Links,
        node_ports::NodePortAddresses,
        notices::outbox::Outbox,
        objects::{
            endpoint_slice::EndpointSlice, node::Node, service::Service, service_cidr::ServiceCidr,
        },
        pending::Pending,
        store::{Concerned, Store},
        translate::view::NodeView,
        watch::step::Step,
    },
};

/// The source's name in reports.
const SOURCE: &str = "kubernetes";

/// What is new, of whatever kind.
#[derive(Debug)]
pub(super) enum Change {
    Service(Step<Service>),
    EndpointSlice(Step<EndpointSlice>),
    ServiceCidr(Step<ServiceCidr>),
    Node(Step<Node>),
    /// One of all nodes, which are watched as soon as they are wanted.
    Peer(Step<Node>),
}

/// An event for the renderer, and what to remember when it took effect.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) event: RendererEvent,
    pub(super) circumstances: Circumstances,
    pub(super) about: About,
}

/// What an event is about.
#[derive(Debug)]
pub(super) enum About {
    /// Everything, with the marks of all services.
    All {
        marks: HashMap<Arc<ServiceId>, Mark>,
        node_ips: BTreeSet<IpAddr>,
        service_cidrs: BTreeSet<IpNet>,
        nodes: ClusterNodes,
    },
    /// The nodes' addresses.
    NodeIps(BTreeSet<IpAddr>),
    /// The nodes by name.
    Nodes(ClusterNodes),
    /// The ranges that cluster IPs are taken from.
    ServiceCidrs(BTreeSet<IpNet>),
    /// A service, with its mark if there is one now.
    Service {
        id: Arc<ServiceId>,
        mark: Option<u64>,
    },
}

impl About {
    /// Whether it is about one service alone.
    pub(super) const fn is_of_a_service(&self) -> bool {
        matches!(self, Self::Service { .. })
    }
}

/// By what a service is known again; `None`: the renderer was told something that failed.
type Mark = Option<u64>;

/// Everything that is known, and what of it the renderer was told.
#[derive(Debug)]
pub(super) struct Engine {
    store: Store,
    view: NodeView,
    links: Links,
    addresses: NodePortAddresses,
    host_addresses: BTreeSet<IpAddr>,
    pending: Pending,
    /// Services that the renderer knows.
    told: HashMap<Arc<ServiceId>, Mark>,
    /// The addresses that carry NodePorts, of this node and of others.
    node_ips: BTreeSet<IpAddr>,
    told_node_ips: BTreeSet<IpAddr>,
    service_cidrs: BTreeSet<IpNet>,
    told_service_cidrs: BTreeSet<IpNet>,
    forwarding: Forwarding,
    peers: ClusterNodes,
    told_peers: ClusterNodes,
    /// Services whose last event failed.
    failed: HashSet<Arc<ServiceId>>,
    is_synced: bool,
    marks: RandomState,
    began: SystemTime,
    /// Who waits for whom.
    conflicts: BTreeSet<Conflict>,
    /// Where health checks cannot be answered, and why.
    failing_checks: BTreeMap<ServiceId, String>,
    monitor: ClusterMonitor,
    reports: Arc<Reports>,
    outbox: Outbox,
}

impl Engine {
    /// Knows nothing but the node's name and where its NodePorts are to be.
    pub(super) fn new(
        node: &str,
        addresses: NodePortAddresses,
        forwarding: Forwarding,
        monitor: ClusterMonitor,
        reports: Arc<Reports>,
        outbox: Outbox,
    ) -> Self {
        // Until it is known that it is.
        reports.set_node_eligible(false);
        Self {
            store: Store::default(),
            view: NodeView {
                name: node.into(),
                zone: None,
                addresses: <_>::default(),
            },
            links: Links::default(),
            addresses,
            host_addresses: BTreeSet::new(),
            pending: Pending::default(),
            told: HashMap::new(),
            node_ips: BTreeSet::new(),
            told_node_ips: BTreeSet::new(),
            service_cidrs: BTreeSet::new(),
            told_service_cidrs: BTreeSet::new(),
            forwarding,
            peers: ClusterNodes::default(),
            told_peers: ClusterNodes::default(),
            failed: HashSet::new(),
            is_synced: false,
            marks: RandomState::default(),
            began: SystemTime::now(),
            conflicts: BTreeSet::new(),
            failing_checks: BTreeMap::new(),
            monitor,
            reports,
            outbox,
        }
    }

    /// This host's interfaces have these addresses now.
    pub(super) fn set_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        self.host_addresses = addresses;
        self.place_node_ports();
    }

    /// Takes note of what became of an event, and of who waits for whom after it.
    pub(super) fn done(&mut self, about: About, result: Result<Vec<Conflict>, String>) {
        let result = result.map(|conflicts| self.look_at_conflicts(&about, conflicts));
        match (about, result) {
            (
                About::All {
                    marks,
                    node_ips,
                    service_cidrs,
                    nodes,
                },
                Ok(()),
            ) => {
                self.told = marks;
                self.told_node_ips = node_ips;
                self.told_service_cidrs = service_cidrs;
                self.told_peers = nodes;
                self.is_synced = true;
                self.monitor.update(|state| state.synced = true);
            }
            // Tried again with what is known then.
            (
                About::All { .. } | About::NodeIps(_) | About::Nodes(_) | About::ServiceCidrs(_),
                Err(_),
            ) => {}
            (About::Nodes(nodes), Ok(())) => self.told_peers = nodes,
            (About::NodeIps(node_ips), Ok(())) => self.told_node_ips = node_ips,
            (About::ServiceCidrs(cidrs), Ok(())) => self.told_service_cidrs = cidrs,
            (About::Service { id, mark }, Ok(())) => {
                match mark {
                    Some(_) => self.told.insert(Arc::clone(&id), mark),
                    None => self.told.remove(&id),
                };
                self.failed.remove(&id);
            }
            (About::Service { id, .. }, Err(reason)) => {
                // What the renderer has of it stays, and is not what is known here.
                self.told
                    .entry(Arc::clone(&id))
                    .and_modify(|mark| *mark = None);
                let text = id.to_string();
                self.monitor.update(|state| {
                    let untranslated = state.untranslated.entry(text).or_default();
                    untranslated.push(format!("its last change: {reason}"));
                });
                self.failed.insert(id);
            }
        }
        self.show();
    }

    /// Has events that failed tried again.
    pub(super) fn retry(&mut self) {
        let now = Instant::now();
        let failed = self.failed.drain().map(Concerned::by);
        let mut failed: Vec<_> = failed.collect();
        self.store.sort_by_age(&mut failed);
        for concerned in failed {
            self.pending.add(concerned, now);
        }
    }

    /// Shows how things are.
    fn show(&self) {
        let is_up = self.links.are_up();
        let counts = self.store.counts();
        let since = self.pending.since();
        let source = self.monitor.update(|state| {
            if state.connected != is_up {
                state.connected = is_up;
                state.since = SystemTime::now();
            }
            state.trouble = self.links.trouble().map(str::to_owned);
            state.services = counts.services as u64;
            state.endpoint_slices = counts.endpoint_slices as u64;
            state.endpoints = counts.endpoints as u64;
            state.pending = (self.pending.len() + self.failed.len()) as u64;
            state.pending_since = since;
            Contact {
                connected: state.connected,
                since: state.since,
                problem: state.trouble.clone(),
            }
        });
        self.reports.set_source(SOURCE, source);
        self.reports.set_pending(Waiting {
            services: self.pending.len() as u64,
            endpoints: self.pending.endpoints() as u64,
            oldest: ByFamily {
                v4: since,
                v6: since,
            },
        });
    }
}
