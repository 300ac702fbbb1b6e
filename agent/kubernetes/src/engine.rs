//! From the watches' news to events, one at a time of each service. Pure of any waiting: the caller passes in the news
//! and the outcome of each event.

mod host_ports;
mod node;
mod notify;
mod peers;
mod pods;
mod routes;
mod take;
mod tell;

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    net::IpAddr,
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use foldhash::quality::RandomState;
use ipnet::IpNet;
use shunt_model::{ClusterNodes, Conflict, Forwarding, RendererEvent, ServiceId, WorkloadId};
use shunt_runtime::{
    ByFamily, Circumstances, ClusterMonitor, Consequences, Contact, Fate, Pairs,
    Pending as Waiting, Refusal, Reports,
};
use tracing::warn;

use crate::{
    failures::{Failures, General, Topic},
    links::{CustomLinks, Links},
    machines::Machines,
    node_ports::NodePortAddresses,
    notices::outbox::Outbox,
    objects::{
        endpoint_slice::EndpointSlice,
        external_workload::{ExternalWorkload, Group},
        node::{Node, PrimaryAddresses},
        pod::Pod,
        server::Server,
        service::Service,
        service_cidr::ServiceCidr,
    },
    options::KubernetesOptions,
    pending::Pending,
    pods::Pods,
    report::Reporter,
    routes::{book::Book, change::RouteChange},
    store::Store,
    translate::view::{HostPorts, NodeView},
    watch::step::Step,
};

/// The source's name in reports.
const SOURCE: &str = "kubernetes";

/// For how long the first event waits for kinds that only refine it, where nothing is translated yet and where
/// pinned tables translate: without weights that they have, connections would be shared out otherwise meanwhile.
const OVER_EMPTY_TABLES: Duration = Duration::from_secs(30);
const OVER_PINNED_TABLES: Duration = Duration::from_mins(5);

/// News, of whatever kind.
#[derive(Debug)]
pub(super) enum Change {
    Service(Step<Service>),
    EndpointSlice(Step<EndpointSlice>),
    /// A slice that may be the API server's, where its slices are not among those of Services.
    ApiServer(Step<EndpointSlice>),
    ServiceCidr(Step<ServiceCidr>),
    Node(Step<Node>),
    /// One of all nodes, which are watched as soon as they are wanted.
    Peer(Step<Node>),
    /// All nodes are watched no more.
    NoPeers,
    Pod(Step<Pod>),
    /// A machine outside the cluster, of one of two groups.
    Machine(Group, Step<ExternalWorkload>),
    /// A Server of linkerd, by which ports of pods and machines are opaque.
    Server(Step<Server>),
    Route(RouteChange),
}

impl Change {
    /// Returns whether it has all objects of a kind of which there are many.
    pub(super) const fn is_long_list(&self) -> bool {
        matches!(
            self,
            Self::Service(Step::Listed(_))
                | Self::EndpointSlice(Step::Listed(_))
                | Self::Pod(Step::Listed(_))
        )
    }
}

impl From<RouteChange> for Change {
    fn from(change: RouteChange) -> Self {
        Self::Route(change)
    }
}

/// An event for the renderer, with the state to remember when it took effect.
#[derive(Debug)]
pub(super) struct Work {
    pub(super) event: RendererEvent,
    pub(super) circumstances: Circumstances,
    pub(super) about: About,
}

/// Subject of an event.
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
    /// These pods.
    Pods(Vec<Arc<WorkloadId>>),
    /// A service, with its mark if there is one now.
    Service {
        id: Arc<ServiceId>,
        mark: Option<u64>,
    },
}

impl About {
    /// Without what is to be remembered.
    const fn topic(&self) -> Topic<'_> {
        match self {
            Self::All { .. } => Topic::General(General::All),
            Self::NodeIps(_) => Topic::General(General::NodeIps),
            Self::Nodes(_) => Topic::General(General::Nodes),
            Self::ServiceCidrs(_) => Topic::General(General::ServiceCidrs),
            Self::Pods(_) => Topic::General(General::Pods),
            Self::Service { id, mark: _ } => Topic::Service(id),
        }
    }
}

/// Events of which it is not known yet what becomes of them.
#[derive(Debug, Default)]
struct UnderWay {
    /// The services that they are about, each alone: the next event of a service depends on the one before.
    services: HashSet<Arc<ServiceId>>,
    /// True if there is one about more than one service, beside which nothing else is sent.
    is_general: bool,
}

impl UnderWay {
    /// Returns whether there are none.
    fn is_empty(&self) -> bool {
        self.services.is_empty() && !self.is_general
    }

    /// One more.
    fn begin(&mut self, about: &About) {
        match about.topic() {
            Topic::General(_) => self.is_general = true,
            Topic::Service(id) => drop(self.services.insert(Arc::clone(id))),
        }
    }

    /// It is known what became of this one.
    fn end(&mut self, about: &About) {
        match about.topic() {
            Topic::General(_) => self.is_general = false,
            Topic::Service(id) => drop(self.services.remove(id)),
        }
    }
}

/// Mark by which a service is known again; `None`: the renderer got something that failed.
type Mark = Option<u64>;

/// All that is known, and the part of it that the renderer got.
#[derive(Debug)]
pub(super) struct Engine {
    store: Store,
    book: Book,
    view: NodeView,
    /// Addresses of the API server, by the slices that are watched for it.
    api_server: BTreeMap<ServiceId, EndpointSlice>,
    /// True if Services may not have nodes' addresses at the ports of kubelets and of the API server.
    protects_host_ports: bool,
    links: Links,
    addresses: NodePortAddresses,
    host_addresses: BTreeSet<IpAddr>,
    pending: Pending,
    under_way: UnderWay,
    /// Services that the renderer knows.
    told: HashMap<Arc<ServiceId>, Mark>,
    /// The addresses that carry NodePorts, of this node and of others.
    node_ips: BTreeSet<IpAddr>,
    told_node_ips: BTreeSet<IpAddr>,
    told_service_cidrs: BTreeSet<IpNet>,
    forwarding: Forwarding,
    /// The Services that need to know all nodes.
    dsr: HashSet<Arc<ServiceId>>,
    peers: ClusterNodes,
    told_peers: ClusterNodes,
    pods: Pods,
    machines: Machines,
    failures: Failures,
    reporter: Reporter,
    /// The Services that need more room than there can be. They are looked at again when they change.
    too_large: HashSet<Arc<ServiceId>>,
    is_synced: bool,
    /// For how long the first event waits for kinds that only refine it, and since when for nothing else.
    patience: Duration,
    waits_since: Option<Instant>,
    marks: RandomState,
    began: SystemTime,
    /// Services that wait, and those that they wait for.
    conflicts: Pairs<BTreeSet<Conflict>>,
    /// Health checks that cannot be answered, and why.
    failing_checks: BTreeMap<ServiceId, String>,
    monitor: ClusterMonitor,
    reports: Arc<Reports>,
    outbox: Outbox,
    /// This node's address of a family, whatever its Node has.
    node_ip: Option<IpAddr>,
    /// True if the external IPs of Services are served.
    external_ips: bool,
    /// True if the annotation of a Service decides how packets get to backends on other nodes.
    forwarding_by_annotation: bool,
    /// The ranges by which this node's pods are known, if they are those of its Node, and the ones that it has.
    pod_cidrs: Option<Vec<IpNet>>,
    other_pod_cidrs: Option<Vec<IpNet>>,
}

impl Engine {
    /// Returns an engine that knows nothing but its options.
    pub(super) fn new(
        options: &KubernetesOptions,
        monitor: ClusterMonitor,
        reports: Arc<Reports>,
        outbox: Outbox,
    ) -> Self {
        // Until it is known that it is.
        reports.set_node_eligible(false);
        let mut links = Links::default();
        if options.lookup_pods.has_machines() {
            links.custom = CustomLinks::with_lookups();
        }
        Self {
            store: Store::default(),
            book: Book::of_cluster(&options.cluster_domain),
            view: NodeView {
                name: (&*options.node_name).into(),
                zone: None,
                addresses: PrimaryAddresses::default().with(options.node_ip),
                service_cidrs: BTreeSet::new(),
                host_ports: HostPorts::new(),
                limits: options.limits,
            },
            api_server: BTreeMap::new(),
            protects_host_ports: options.protects_host_ports,
            links,
            addresses: options.node_port_addresses.clone(),
            host_addresses: BTreeSet::new(),
            pending: Pending::default(),
            under_way: UnderWay::default(),
            told: HashMap::new(),
            node_ips: BTreeSet::new(),
            told_node_ips: BTreeSet::new(),
            told_service_cidrs: BTreeSet::new(),
            forwarding: options.forwarding,
            dsr: HashSet::new(),
            peers: ClusterNodes::default(),
            told_peers: ClusterNodes::default(),
            pods: Pods::default(),
            machines: Machines::default(),
            failures: Failures::default(),
            reporter: Reporter::new(monitor.clone()),
            too_large: HashSet::new(),
            is_synced: false,
            patience: OVER_EMPTY_TABLES,
            waits_since: None,
            marks: RandomState::default(),
            began: SystemTime::now(),
            conflicts: Pairs::default(),
            failing_checks: BTreeMap::new(),
            monitor,
            reports,
            outbox,
            node_ip: options.node_ip,
            external_ips: options.external_ips,
            forwarding_by_annotation: options.forwarding_by_annotation,
            pod_cidrs: None,
            other_pod_cidrs: None,
        }
    }

    /// This host's interfaces have these addresses now.
    pub(super) fn set_host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        self.host_addresses = addresses;
        self.place_node_ports();
    }

    /// Pinned tables translate until the first event.
    pub(super) const fn begins_over_pinned_tables(&mut self) {
        self.patience = OVER_PINNED_TABLES;
    }

    /// Returns the time from which the first event waits no longer for kinds that only refine it.
    pub(super) fn waits_until(&self) -> Option<Instant> {
        let is_waiting = !self.is_synced && !self.links.are_complete();
        let since = self.waits_since.filter(|_| is_waiting)?;
        Some(since + self.patience)
    }

    /// Has the first event wait no longer for kinds that only refine it. They are applied when they come.
    pub(super) fn stop_waiting(&mut self) {
        let missing = self.links.stop_waiting().join(", ");
        warn!(
            "{missing}: the first lists have not come within {:?}, so services are translated without them",
            self.patience
        );
        self.first_lists_are_there();
        self.show();
    }

    /// Takes note of the outcome of an event, and of the conflicts after it.
    pub(super) fn done(&mut self, about: About, fate: Fate) {
        self.under_way.end(&about);
        let result = fate.map(|consequences| {
            let Consequences {
                conflicts,
                refused,
                may_have_made_room: _,
            } = consequences;
            self.look_at_conflicts(&about, conflicts);
            refused
        });
        match &result {
            Ok(_) => self.failures.remove(about.topic()),
            Err(Refusal { reason, .. }) => {
                let is_new = self.failures.add(about.topic(), Instant::now());
                if let About::Service { id, .. } = &about
                    && is_new
                {
                    self.tell_left_out(id, reason);
                }
            }
        }
        match (about, result) {
            (
                About::All {
                    marks,
                    node_ips,
                    service_cidrs,
                    nodes,
                },
                Ok(refused),
            ) => {
                self.told = marks;
                self.told_node_ips = node_ips;
                self.told_service_cidrs = service_cidrs;
                self.told_peers = nodes;
                self.is_synced = true;
                self.monitor.update(|state| state.synced = true);
                self.without(refused);
            }
            // Tried again with what is known then. Of pods that were sent, nothing is left to note.
            (
                About::All { .. } | About::NodeIps(_) | About::Nodes(_) | About::ServiceCidrs(_),
                Err(_),
            )
            | (About::Pods(_), Ok(_)) => {}
            (About::Nodes(nodes), Ok(_)) => self.told_peers = nodes,
            (About::NodeIps(node_ips), Ok(refused)) => {
                self.told_node_ips = node_ips;
                self.without(refused);
            }
            (About::ServiceCidrs(cidrs), Ok(_)) => self.told_service_cidrs = cidrs,
            (About::Pods(ids), Err(_)) => self.pods.tell_again(ids),
            (About::Service { id, mark }, Ok(refused)) => {
                match mark {
                    Some(_) => self.told.insert(id, mark),
                    None => self.told.remove(&id),
                };
                self.without(refused);
            }
            (About::Service { id, .. }, Err(Refusal { reason, .. })) => {
                // What the renderer has of it stays, and is not what is known here.
                self.told
                    .entry(Arc::clone(&id))
                    .and_modify(|mark| *mark = None);
                let text = id.to_string();
                self.monitor.update(|state| {
                    let untranslated = state.untranslated.entry(text).or_default();
                    untranslated.push(format!("its last change: {reason}"));
                });
            }
        }
        self.show();
    }

    /// An event took effect without these services. Each is tried again by itself.
    fn without(&mut self, services: BTreeMap<ServiceId, String>) {
        let now = Instant::now();
        for (id, reason) in services {
            let id = Arc::new(id);
            self.told.remove(&id);
            if self.failures.add(Topic::Service(&id), now) {
                self.tell_left_out(&id, &reason);
            }
            let text = id.to_string();
            self.monitor.update(|state| {
                let untranslated = state.untranslated.entry(text).or_default();
                untranslated.push(format!("it is left out: {reason}"));
            });
        }
    }

    /// Has events that failed tried again.
    pub(super) fn retry(&mut self) {
        let now = Instant::now();
        let mut failed = self.failures.retry();
        self.store.sort_by_age(&mut failed);
        for concerned in failed {
            self.pending.add(concerned, now);
        }
    }

    /// Shows how things are.
    fn show(&self) {
        let is_up = self.links.are_up();
        let counts = self.store.counts();
        // What failed waits, between two tries too.
        let failed = self.failures.services();
        let failed = failed.filter(|id| !self.pending.has(id)).count();
        let waiting = (self.pending.len() + failed) as u64;
        // Until everything was sent once, what has changed since is part of that.
        let late = self.pending.since().filter(|_| self.is_synced);
        let since = [self.pending.since(), self.failures.since()];
        let since = since.into_iter().flatten().min();
        let source = self.monitor.update(|state| {
            if state.connected != is_up {
                state.connected = is_up;
                state.since = SystemTime::now();
            }
            state.trouble = self.links.trouble().map(str::to_owned);
            state.services = counts.services as u64;
            state.endpoint_slices = counts.endpoint_slices as u64;
            state.endpoints = counts.endpoints as u64;
            state.pending = waiting;
            state.pending_since = since;
            (state.unreadable, state.first_unreadable) = self.links.unreadable();
            Contact {
                connected: state.connected,
                since: state.since,
                problem: state.trouble.clone(),
            }
        });
        self.reports.set_source(SOURCE, source);
        self.reports.set_pending(Waiting {
            services: waiting,
            endpoints: self.pending.endpoints() as u64,
            refused: (self.failures.services().count() + self.too_large.len()) as u64,
            oldest: ByFamily { v4: late, v6: late },
        });
    }
}
