//! The sources of an agent's events: a file, a cluster, and its socket.

use std::{collections::BTreeSet, future::pending, net::IpAddr, path::PathBuf, sync::Arc};

use anyhow::{Context as _, Result};
use ipnet::IpNet;
use shunt_datapath::{InterfaceWatch, KnownRoutes, TableSizes};
use shunt_kubernetes::KubernetesSource;
use shunt_runtime::{ClusterMonitor, EventQueue, Here, HereWatch};
use shunt_source::{Calls, EventSource as _, FileSource, Input, SocketSource};
use tokio::sync::watch;
use tracing::warn;

use crate::{
    cli::flags::{
        consul::{Consul, ConsulArgs},
        detect_local::NodeRanges,
        kubernetes::KubernetesArgs,
        node::NodeArgs,
    },
    host::addresses::host_addresses,
};

/// The sources, opened and not started.
#[derive(Debug)]
pub(super) struct Sources {
    file: Option<FileSource>,
    cluster: Option<KubernetesSource>,
    consul: Consul,
    /// The host's addresses, which a cluster's source follows.
    host: watch::Sender<BTreeSet<IpAddr>>,
    /// The addresses on this host, which the sources of instances follow.
    here: watch::Sender<Option<Arc<Here>>>,
}

impl Sources {
    /// Opens the sources that there are to be. Nothing is requested from a cluster yet.
    ///
    /// # Errors
    ///
    /// One cannot be opened.
    pub(super) async fn open(
        events: Option<Input>,
        (kubernetes, cluster_domain): (KubernetesArgs, &str),
        consul: ConsulArgs,
        node: &NodeArgs,
        sizes: TableSizes,
    ) -> Result<Self> {
        let (host, changes) = watch::channel(BTreeSet::new());
        let here = watch::Sender::new(None);
        let file = events.map(|events| {
            let failed = format!("cannot open the events in {events}");
            FileSource::open(events).context(failed)
        });
        Ok(Self {
            file: file.transpose()?,
            consul: consul.open(here.subscribe())?,
            cluster: match kubernetes.options(node.forwarding(), sizes, cluster_domain)? {
                Some(options) => Some(KubernetesSource::new(options, changes).await?),
                None => None,
            },
            host,
            here,
        })
    }

    /// The addresses on this host, whenever they change: `None` until the sources are started.
    pub(super) fn here(&self) -> HereWatch {
        self.here.subscribe()
    }

    /// Returns the ranges of this node's pods, if a cluster has them and they are `needed`, or of use.
    ///
    /// # Errors
    ///
    /// The cluster does not have what is needed.
    pub(super) async fn pod_cidrs(&mut self, need: NodeRanges) -> Result<Vec<IpNet>> {
        let needed = match need {
            NodeRanges::Needed => true,
            NodeRanges::Welcome => false,
            NodeRanges::Unused => return Ok(Vec::new()),
        };
        Ok(match &mut self.cluster {
            Some(cluster) => cluster.pod_cidrs(needed).await?,
            None => Vec::new(),
        })
    }

    /// Pinned tables translate until the first event.
    pub(super) const fn begin_over_pinned_tables(&mut self) {
        if let Some(cluster) = &mut self.cluster {
            cluster.begins_over_pinned_tables();
        }
    }

    /// The source that has the last word, as it names itself, if there is one.
    pub(super) fn name(&self) -> Option<String> {
        let file = self.file.as_ref().map(ToString::to_string);
        let cluster = self.cluster.as_ref().map(ToString::to_string);
        file.or(cluster).or_else(|| self.consul.name())
    }

    /// Returns the monitor of the source that follows a cluster, if there is one.
    pub(super) fn followed(&self) -> Option<ClusterMonitor> {
        self.cluster.as_ref().map(KubernetesSource::monitor)
    }

    /// Starts them, that of `socket` too, and has them and the event loop follow the host's addresses, whose changes
    /// `changes` reports, and the `guests`. Returns their names, and where calls go.
    ///
    /// # Errors
    ///
    /// One cannot be started.
    pub(super) fn start(
        self,
        queue: EventQueue,
        changes: InterfaceWatch,
        guests: Guests,
        socket: PathBuf,
    ) -> Result<(Vec<String>, Calls)> {
        let Self {
            file,
            cluster,
            consul,
            host,
            here,
        } = self;
        let addresses = host_addresses().context("cannot read the addresses of this host")?;
        here.send_replace(Some(guests.with(addresses.clone())));
        host.send_replace(addresses);
        tokio::spawn(follow_here(host.subscribe(), guests, here));
        tokio::spawn(follow_addresses(changes, queue.clone(), host));
        let mut names = Vec::new();
        if let Some(file) = file {
            names.push(file.to_string());
            file.start(queue.clone())
                .context("cannot start reading events")?;
        }
        if let Some(cluster) = cluster {
            names.push(cluster.to_string());
            cluster
                .start(queue.clone())
                .context("cannot start following Kubernetes")?;
        }
        names.extend(consul.start(&queue)?);
        let calls = SocketSource::new(socket);
        names.push(calls.to_string());
        Ok((names, calls.start(queue).context("cannot take calls")?))
    }
}

/// Sends the host's addresses to the event loop and to the receivers of `host`, as they are now and whenever they
/// change.
async fn follow_addresses(
    mut changes: InterfaceWatch,
    queue: EventQueue,
    host: watch::Sender<BTreeSet<IpAddr>>,
) {
    loop {
        match host_addresses() {
            Ok(addresses) => {
                host.send_if_modified(|known| {
                    let is_new = *known != addresses;
                    known.clone_from(&addresses);
                    is_new
                });
                if queue.host_addresses(addresses).await.is_err() {
                    return;
                }
            }
            Err(error) => warn!(%error, "the addresses of this host cannot be read"),
        }
        changes.changed().await;
    }
}

/// The pods and guests of this host, by their networks.
#[derive(Debug)]
pub(super) struct Guests {
    /// Networks of those that ranges identify.
    pub(super) ranges: Vec<IpNet>,
    /// Networks of those that routes identify, whenever these change. `None`: ranges alone count.
    pub(super) routes: Option<watch::Receiver<Arc<KnownRoutes>>>,
}

impl Guests {
    /// The addresses on this host, which has the addresses `host` itself.
    fn with(&self, host: BTreeSet<IpAddr>) -> Arc<Here> {
        let routes = self
            .routes
            .as_ref()
            .map(|routes| Arc::clone(&routes.borrow()));
        let by_routes = routes.iter().flat_map(|routes| &routes.guests);
        let networks = self.ranges.iter().chain(by_routes).copied();
        Arc::new(Here::new(host, networks))
    }

    /// Waits until routes lead to others.
    async fn changed(&mut self) {
        if let Some(routes) = &mut self.routes
            && routes.changed().await.is_ok()
        {
            return;
        }
        pending::<()>().await;
    }
}

/// Sends the addresses on this host to `here` whenever they change.
async fn follow_here(
    mut host: watch::Receiver<BTreeSet<IpAddr>>,
    mut guests: Guests,
    here: watch::Sender<Option<Arc<Here>>>,
) {
    loop {
        tokio::select! {
            changed = host.changed() => if changed.is_err() {
                return;
            },
            () = guests.changed() => {}
        }
        let now = guests.with(host.borrow_and_update().clone());
        here.send_if_modified(|known| {
            let is_new = known.as_ref() != Some(&now);
            *known = Some(now);
            is_new
        });
    }
}
