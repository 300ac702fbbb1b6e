//! The source: watches and engine, tasks of the runtime that starts it.
//!
//! That is the event loop's. What one change needs, from its bytes to its event's answer, then is
//! done by one thread: at a thousand changes a second, waking another one, and being woken by it,
//! costs more than either does.

use std::{
    collections::BTreeSet, convert::Infallible, fmt, future::pending, io, net::IpAddr, panic,
    pin::Pin, process, sync::Arc, time::Duration,
};

use ipnet::IpNet;
use kube::Config;
use shunt_model::Conflict;
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, sleep_until},
};
use tracing::error;

use crate::{
    runtime::{
        cluster_state::ClusterMonitor, error::Ending, origin::Origin, outcome::Acceptance,
        queue::EventQueue,
    },
    source::{
        event_source::EventSource,
        kubernetes::{
            engine::{About, Change, Engine, Work},
            notices::{outbox::Outbox, recorder::record},
            options::KubernetesOptions,
            watch::{
                client::{Access, ApiServerError},
                kind::{EndpointSlices, Nodes, Selectors, ServiceCidrs, Services},
                pod_cidrs::{PodCidrsError, pod_cidrs},
                watcher::Watcher,
            },
        },
    },
};

/// How long to wait before an event that failed is tried again.
const RETRY: Duration = Duration::from_secs(5);

/// The exit status of a process that has panicked, as Rust has it.
const EXIT_PANICKED: i32 = 101;

/// How many changes may wait for the engine before those who watch do.
const AHEAD: usize = 256;

/// Services of a Kubernetes cluster.
#[derive(Debug)]
pub struct KubernetesSource {
    options: KubernetesOptions,
    config: Config,
    host_addresses: watch::Receiver<BTreeSet<IpAddr>>,
    monitor: ClusterMonitor,
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
        })
    }

    /// The first range of each family that this node's pods have their addresses of, by its Node;
    /// waits for minutes until it says so.
    ///
    /// # Errors
    ///
    /// The server cannot be asked, or the Node does not say it.
    pub async fn pod_cidrs(&self) -> Result<Vec<IpNet>, PodCidrsError> {
        pod_cidrs(self.config.clone(), &self.options.node_name).await
    }

    /// How the source is, whenever somebody looks.
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
        } = self;
        let reports = queue.reports();
        let access = Access::new(config, Arc::clone(reports)).map_err(io::Error::other)?;
        let (outbox, notices) = Outbox::new(Arc::clone(reports));
        let node = options.node_name.clone();
        // What becomes of it is nothing that translation depends on.
        tokio::spawn(record(
            access.client().clone(),
            node,
            notices,
            Arc::clone(reports),
        ));
        let engine = Engine::new(
            &options.node_name,
            options.node_port_addresses.clone(),
            options.forwarding,
            monitor,
            Arc::clone(reports),
            outbox,
        );
        let followed = tokio::spawn(async move {
            let mut watchers = JoinSet::new();
            let (wants_peers, wanted) = watch::channel(false);
            let changes = watch_all(&mut watchers, &access, &options, wanted);
            tokio::select! {
                Err(Ending) = deliver(engine, changes, host_addresses, queue, wants_peers) => {}
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

/// Begins to watch everything that is read; all nodes as soon as they are wanted.
fn watch_all(
    watchers: &mut JoinSet<()>,
    access: &Access,
    options: &KubernetesOptions,
    mut wants_peers: watch::Receiver<bool>,
) -> mpsc::Receiver<Change> {
    let (steps, changes) = mpsc::channel(AHEAD);
    let proxy = options.proxy_name.as_deref();
    let nodes = if options.remote_node_ports {
        Selectors::default()
    } else {
        Selectors::node(&options.node_name)
    };
    let (access, steps) = (|| access.clone(), || steps.clone());
    let services = Selectors::services(proxy);
    let slices = Selectors::endpoint_slices(proxy);
    let cidrs = Selectors::default();
    let services = Watcher::<Services, _>::new(access(), services, steps(), Change::Service);
    let slices =
        Watcher::<EndpointSlices, _>::new(access(), slices, steps(), Change::EndpointSlice);
    let cidrs = Watcher::<ServiceCidrs, _>::new(access(), cidrs, steps(), Change::ServiceCidr);
    let nodes = Watcher::<Nodes, _>::new(access(), nodes, steps(), Change::Node);
    watchers.spawn(services.run());
    watchers.spawn(slices.run());
    watchers.spawn(cidrs.run());
    watchers.spawn(nodes.run());
    let peers = Selectors::default();
    let peers = Watcher::<Nodes, _>::new(access(), peers, steps(), Change::Peer);
    watchers.spawn(async move {
        if wants_peers.wait_for(|wants| *wants).await.is_ok() {
            peers.run().await;
        }
    });
    changes
}

/// An event on its way.
type InFlight = Pin<Box<dyn Future<Output = Result<(About, Fate), Ending>> + Send>>;

/// What became of it: who waits for whom now, or why it had no effect.
type Fate = Result<Vec<Conflict>, String>;

/// Delivers one event after the other. What changes while one is on its way waits, and what changes
/// twice meanwhile is one event.
async fn deliver(
    mut engine: Engine,
    mut changes: mpsc::Receiver<Change>,
    mut host: watch::Receiver<BTreeSet<IpAddr>>,
    queue: EventQueue,
    wants_peers: watch::Sender<bool>,
) -> Result<Infallible, Ending> {
    engine.set_host_addresses(host.borrow_and_update().clone());
    let mut listeners = queue.reports().listeners();
    let mut number = 0;
    let mut in_flight: Option<InFlight> = None;
    let mut retry_at: Option<Instant> = None;
    let mut host_is_followed = true;
    let mut is_waiting = false;
    loop {
        if in_flight.is_none()
            && !is_waiting
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
            let queue = queue.clone();
            in_flight = Some(Box::pin(async move {
                let answer = queue.deliver_with(origin, Ok(event), circumstances).await?;
                let result = match answer {
                    Ok(Acceptance::Applied(outcome)) => Ok(outcome.conflicts),
                    Ok(Acceptance::Held) => Ok(Vec::new()),
                    Err(error) => Err(error.to_string()),
                };
                Ok((about, result))
            }));
        }
        tokio::select! {
            biased;
            done = finished(&mut in_flight), if in_flight.is_some() => {
                in_flight = None;
                let (about, result) = done?;
                if result.is_err() {
                    // Nothing else goes on without these.
                    is_waiting |= !about.is_of_a_service();
                    retry_at.get_or_insert_with(|| Instant::now() + RETRY);
                }
                engine.done(about, result);
            }
            Some(change) = changes.recv() => {
                engine.take(change);
                for _ in 0..AHEAD {
                    let Ok(change) = changes.try_recv() else { break };
                    engine.take(change);
                }
                wants_peers.send_if_modified(|wants| {
                    let is_new = engine.wants_peers() && !*wants;
                    *wants |= is_new;
                    is_new
                });
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
            () = until(retry_at), if retry_at.is_some() => {
                (retry_at, is_waiting) = (None, false);
                engine.retry();
            }
        }
    }
}

/// What became of the event that is on its way.
async fn finished(in_flight: &mut Option<InFlight>) -> <InFlight as Future>::Output {
    match in_flight {
        Some(future) => future.await,
        None => pending().await,
    }
}

async fn until(when: Option<Instant>) {
    match when {
        Some(when) => sleep_until(when).await,
        None => pending().await,
    }
}
