//! The source: watches and engine, tasks of the runtime that starts it.
//!
//! That is the event loop's. What one change needs, from its bytes to its event's answer, then is
//! done by one thread: at a thousand changes a second, waking another one, and being woken by it,
//! costs more than either does.

use std::{
    collections::BTreeSet, convert::Infallible, fmt, io, mem, net::IpAddr, panic, process,
    sync::Arc, time::Duration,
};

use futures_util::{StreamExt as _, stream::FuturesUnordered};
use ipnet::IpNet;
use kube::Config;
use shunt_runtime::{ClusterMonitor, Ending, EventQueue, Fate, Origin, come, fate, until};
use shunt_source::{EventSource, Retries};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, timeout},
};
use tracing::error;

use crate::{
    engine::{About, Change, Engine, Work},
    notices::{outbox::Outbox, recorder::record},
    objects::{custom::CustomKind, external_workload::Group},
    options::{KubernetesOptions, LookupPods},
    routes::change::{watch_meshes, watch_routes},
    watch::{
        client::{Access, ApiServerError},
        defined::watch_while_defined,
        kind::{
            EndpointSlices, ExternalWorkloads, LinkerdExternalWorkloads, Nodes, Pods, Selectors,
            Servers, ServiceCidrs, Services,
        },
        pod_cidrs::{PodCidrsError, known_pod_cidrs, wait_for_pod_cidrs},
        watcher::Watcher,
    },
};

/// Time that all nodes are watched after the last Service that needed them: one that comes and goes has them listed no
/// more often.
const UNWANTED: Duration = Duration::from_mins(5);

/// The exit status of a process that has panicked, as Rust has it.
const EXIT_PANICKED: i32 = 101;

/// That of one that has to begin anew with other settings, as kube-proxy has it.
const EXIT_OUTDATED: i32 = 1;

/// Number of changes that may wait for the engine before their senders wait.
const AHEAD: usize = 256;

/// Services of a Kubernetes cluster.
#[derive(Debug)]
pub struct KubernetesSource {
    options: KubernetesOptions,
    config: Config,
    host_addresses: watch::Receiver<BTreeSet<IpAddr>>,
    monitor: ClusterMonitor,
    /// The ranges of its pods from the Node, if they were requested.
    pod_cidrs: Option<Vec<IpNet>>,
    /// True if pinned tables translate already.
    over_pinned_tables: bool,
}

impl KubernetesSource {
    /// Looks up how the API server is reached, and asks it nothing yet. `host_addresses` are those
    /// of this host's interfaces, whenever they change.
    ///
    /// # Errors
    ///
    /// It is not known how to reach the server, or as whom.
    pub async fn new(
        options: KubernetesOptions,
        host_addresses: watch::Receiver<BTreeSet<IpAddr>>,
    ) -> Result<Self, ApiServerError> {
        let config = options.api_server.config().await?;
        let name = format!("Kubernetes at {}", config.cluster_url);
        Ok(Self {
            monitor: ClusterMonitor::new(name, options.node_name.clone()),
            options,
            config,
            host_addresses,
            pod_cidrs: None,
            over_pinned_tables: false,
        })
    }

    /// Returns the first range of each family that this node's pods have their addresses of, by its Node; if they are
    /// `needed`, waits for minutes until it has them. From the [start](EventSource::start) on, other ranges of the Node
    /// end the process: they are known to be these by then.
    ///
    /// # Errors
    ///
    /// The server cannot be asked, or the Node does not have what is needed.
    pub async fn pod_cidrs(&mut self, needed: bool) -> Result<Vec<IpNet>, PodCidrsError> {
        let (config, node) = (self.config.clone(), &self.options.node_name);
        let ranges = if needed {
            wait_for_pod_cidrs(config, node).await?
        } else {
            known_pod_cidrs(config, node).await?
        };
        self.pod_cidrs = Some(ranges.clone());
        Ok(ranges)
    }

    /// Pinned tables translate until the first event: it waits longer for what only refines it.
    pub const fn begins_over_pinned_tables(&mut self) {
        self.over_pinned_tables = true;
    }

    /// Returns a monitor that shows the current state of the source.
    pub fn monitor(&self) -> ClusterMonitor {
        self.monitor.clone()
    }
}

impl fmt::Display for KubernetesSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            options, config, ..
        } = self;
        write!(
            f,
            "following Kubernetes at {} as node {}",
            config.cluster_url, options.node_name
        )
    }
}

impl EventSource for KubernetesSource {
    type Handle = ();

    fn start(self, queue: EventQueue) -> io::Result<()> {
        let Self {
            options,
            config,
            host_addresses,
            monitor,
            pod_cidrs,
            over_pinned_tables,
        } = self;
        let reports = queue.reports();
        let access = Access::new(config, Arc::clone(reports)).map_err(io::Error::other)?;
        let (outbox, notices) = Outbox::new(Arc::clone(reports));
        let node = options.node_name.clone();
        // Translation does not depend on its outcome.
        tokio::spawn(record(access.client(), node, notices, Arc::clone(reports)));
        let mut engine = Engine::new(&options, monitor, Arc::clone(reports), outbox);
        engine.pods_are_known_by(pod_cidrs);
        if options.lookup_pods != LookupPods::Off {
            reports.set_workloads_awaited(true);
        }
        if over_pinned_tables {
            engine.begins_over_pinned_tables();
        }
        let followed = tokio::spawn(async move {
            let mut watchers = JoinSet::new();
            let wishes = Wishes::default();
            let changes = watch_all(&mut watchers, &access, &options, &wishes);
            tokio::select! {
                Err(end) = deliver(engine, changes, host_addresses, queue, wishes) => {
                    match end {
                        End::Ending => {}
                        End::Outdated(reason) => {
                            error!("{reason}: the agent ends, to be started anew");
                            process::exit(EXIT_OUTDATED);
                        }
                    }
                }
                Some(Err(panicked)) = watchers.join_next() => {
                    panic::resume_unwind(panicked.into_panic())
                }
            }
        });
        tokio::spawn(async move {
            if followed.await.is_err_and(|error| error.is_panic()) {
                error!("following Kubernetes has failed: the agent ends, to be started anew");
                process::exit(EXIT_PANICKED);
            }
        });
        Ok(())
    }
}

/// Objects that are watched only if there is a reason to, announced to their watches.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// All nodes.
    peers: watch::Sender<bool>,
    /// Kinds that the cluster defines.
    defined: watch::Sender<BTreeSet<CustomKind>>,
}

impl Wishes {
    /// As they are by what is known now.
    fn tell(&self, engine: &Engine) {
        self.peers.send_if_modified(|wanted| {
            let wants = engine.wants_peers();
            mem::replace(wanted, wants) != wants
        });
        self.defined.send_if_modified(|known| {
            let is_new = !engine.defined().eq(known.iter().copied());
            if is_new {
                *known = engine.defined().collect();
            }
            is_new
        });
    }
}

/// The label of the API server's own slices. Other namespaces may have slices with it, too.
const API_SERVER: &str = "kubernetes.io/service-name=kubernetes";

/// Begins to watch everything that is read; what is a wish as soon as it is one.
fn watch_all(
    watchers: &mut JoinSet<()>,
    access: &Access,
    options: &KubernetesOptions,
    wishes: &Wishes,
) -> mpsc::Receiver<Change> {
    let (steps, changes) = mpsc::channel(AHEAD);
    let proxy = options.proxy_name.as_deref();
    let nodes = if options.remote_node_ports {
        Selectors::default()
    } else {
        Selectors::node(&options.node_name)
    };
    let (access, steps) = (|| access.clone(), || steps.clone());
    // The instances of headless ones are asked for by their pods' names.
    let headless = options.lookup_pods != LookupPods::Off;
    let services = Selectors::services(proxy, headless);
    let slices = Selectors::endpoint_slices(proxy, headless);
    let cidrs = Selectors::default();
    let services = Watcher::<Services, _>::new(access(), services, steps(), Change::Service);
    let slices =
        Watcher::<EndpointSlices, _>::new(access(), slices, steps(), Change::EndpointSlice);
    if proxy.is_some() {
        // The slices of this proxy's Services are not all that there are.
        let own = Selectors::labelled(API_SERVER);
        let own = Watcher::<EndpointSlices, _>::new(access(), own, steps(), Change::ApiServer);
        watchers.spawn(own.run());
    }
    let cidrs = Watcher::<ServiceCidrs, _>::new(access(), cidrs, steps(), Change::ServiceCidr);
    let nodes = Watcher::<Nodes, _>::new(access(), nodes, steps(), Change::Node);
    watchers.spawn(services.run());
    watchers.spawn(slices.run());
    watchers.spawn(cidrs.run());
    watchers.spawn(nodes.run());
    let pods = match options.lookup_pods {
        LookupPods::Off => None,
        LookupPods::Node => Some(Selectors::pods(Some(&options.node_name))),
        LookupPods::All => Some(Selectors::pods(None)),
    };
    if let Some(pods) = pods {
        watchers.spawn(Watcher::<Pods, _>::new(access(), pods, steps(), Change::Pod).run());
    }
    let defined = || wishes.defined.subscribe();
    if options.lookup_pods.has_machines() {
        watchers.spawn(watch_while_defined::<ExternalWorkloads, Change>(
            Group::Shunt.kind(),
            access(),
            steps(),
            |step| Change::Machine(Group::Shunt, step),
            defined(),
        ));
        watchers.spawn(watch_while_defined::<LinkerdExternalWorkloads, Change>(
            Group::Linkerd.kind(),
            access(),
            steps(),
            |step| Change::Machine(Group::Linkerd, step),
            defined(),
        ));
        watchers.spawn(watch_while_defined::<Servers, Change>(
            CustomKind::Server,
            access(),
            steps(),
            Change::Server,
            defined(),
        ));
    }
    watch_routes(watchers, &access(), &steps(), &defined());
    watch_meshes(watchers, &access(), &steps(), &defined());
    let wants_peers = wishes.peers.subscribe();
    watchers.spawn(watch_peers(access(), steps(), wants_peers));
    changes
}

/// Watches all nodes while they are wanted.
async fn watch_peers(
    access: Access,
    steps: mpsc::Sender<Change>,
    mut wanted: watch::Receiver<bool>,
) {
    while wanted.wait_for(|wants| *wants).await.is_ok() {
        let (access, to) = (access.clone(), steps.clone());
        let peers = Watcher::<Nodes, _>::new(access, Selectors::default(), to, Change::Peer);
        tokio::select! {
            () = peers.run() => return,
            () = are_unwanted(&mut wanted) => {}
        }
        if steps.send(Change::NoPeers).await.is_err() {
            return;
        }
    }
}

/// Waits until they have not been wanted for [`UNWANTED`], or the sender is gone.
async fn are_unwanted(wanted: &mut watch::Receiver<bool>) {
    while wanted.wait_for(|wants| !*wants).await.is_ok() {
        let again = timeout(UNWANTED, wanted.wait_for(|wants| *wants)).await;
        if !matches!(again, Ok(Ok(_))) {
            return;
        }
    }
}

/// Why no more events are delivered.
#[derive(Debug)]
pub(super) enum End {
    /// Their receiver is gone.
    Ending,
    /// A fact that the agent began with does not hold any more.
    Outdated(String),
}

impl From<Ending> for End {
    fn from(Ending: Ending) -> Self {
        Self::Ending
    }
}

/// Delivers one event after the other. What changes before the turn of one has come waits, and what
/// changes twice meanwhile is one event. One that has to wait aside when its turn comes keeps only back
/// what has to do with it.
pub(super) async fn deliver(
    mut engine: Engine,
    mut changes: mpsc::Receiver<Change>,
    mut host: watch::Receiver<BTreeSet<IpAddr>>,
    queue: EventQueue,
    wishes: Wishes,
) -> Result<Infallible, End> {
    engine.set_host_addresses(host.borrow_and_update().clone());
    let mut listeners = queue.reports().listeners();
    let mut number = 0;
    let mut under_way = FuturesUnordered::new();
    let mut turn: Option<oneshot::Receiver<Infallible>> = None;
    let mut retries = Retries::default();
    let mut host_is_followed = true;
    loop {
        if turn.is_none()
            && let Some(Work {
                event,
                circumstances,
                about,
            }) = engine.next()
        {
            number += 1;
            let origin = Origin {
                unit: "change",
                number,
            };
            let (its_turn, awaited) = oneshot::channel();
            turn = Some(awaited);
            let queue = queue.clone();
            under_way.push(async move {
                let answer = queue
                    .deliver_with(origin, Ok(event), circumstances, Some(its_turn))
                    .await?;

                Ok::<(About, Fate), Ending>((about, fate(answer)))
            });
        }
        let waits_until = engine.waits_until().map(Instant::from_std);
        tokio::select! {
            biased;
            Some(done) = under_way.next() => {
                let (about, result) = done?;
                retries.note(&result);
                engine.done(about, result);
            }
            () = come(&mut turn) => turn = None,
            Some(change) = changes.recv() => {
                let mut is_list = change.is_long_list();
                engine.take(change);
                for _ in 0..AHEAD {
                    let Ok(change) = changes.try_recv() else { break };
                    is_list |= change.is_long_list();
                    engine.take(change);
                }
                // Nearly all of it is known from the list before.
                if is_list {
                    queue.has_slack().await?;
                }
                if let Some(reason) = engine.outdated() {
                    return Err(End::Outdated(reason));
                }
                wishes.tell(&engine);
            }
            // It does not end before the queue does.
            Ok(()) = listeners.changed() => {
                let listeners = listeners.borrow_and_update().clone();
                engine.look_at_listeners(&listeners);
            }
            changed = host.changed(), if host_is_followed => match changed {
                Ok(()) => engine.set_host_addresses(host.borrow_and_update().clone()),
                Err(_) => host_is_followed = false,
            },
            () = until(waits_until) => engine.stop_waiting(),
            () = retries.due() => engine.retry(),
        }
    }
}
