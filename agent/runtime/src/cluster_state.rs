//! State of a source, for display.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use ipnet::IpNet;

/// State of a source that follows a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// Name of the place that its events come from, for people.
    pub name: String,
    /// True if everything that is followed is up to date.
    pub connected: bool,
    /// Since when it is, or is not.
    pub since: SystemTime,
    /// Why it is not.
    pub trouble: Option<String>,
    /// True if all was there once, so that the renderer got it.
    pub synced: bool,
    /// Time of the last change that the server reported.
    pub last_event: Option<SystemTime>,
    /// Time of the last new listing.
    pub last_relist: Option<SystemTime>,
    /// Number of new listings.
    pub relists: u64,
    /// Services that are known.
    pub services: u64,
    /// EndpointSlices that are known.
    pub endpoint_slices: u64,
    /// Endpoints that are known.
    pub endpoints: u64,
    /// Nodes that are known: this one, and others if their NodePorts are translated.
    pub nodes: u64,
    /// The ranges that cluster IPs are taken from; `None`: the cluster does not publish them.
    pub service_cidrs: Option<BTreeSet<IpNet>>,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// Arrival time of the oldest of these changes.
    pub pending_since: Option<Instant>,
    /// This node.
    pub node: ClusterNode,
    /// Parts of each service that are not translated, and why.
    pub untranslated: BTreeMap<String, Vec<String>>,
    /// Number of the server's objects that cannot be read.
    pub unreadable: u64,
    /// The first of each kind.
    pub first_unreadable: Vec<UnreadableObject>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnreadableObject {
    /// Its kind, for people.
    pub kind: &'static str,
    /// Its name, behind its namespace's if it has one.
    pub name: String,
    /// The field, and what is wrong with it.
    pub reason: String,
}

/// The cluster's data on this node.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterNode {
    /// Its name.
    pub name: String,
    /// True if the server knows it.
    pub found: bool,
    /// Its zone.
    pub zone: Option<String>,
    /// Its primary addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}

/// The state of a source, shared with its readers.
#[derive(Debug, Clone)]
pub struct ClusterMonitor(Arc<Mutex<ClusterState>>);

impl ClusterMonitor {
    /// That of a source, called `name`, on the node `node`, which knows nothing yet.
    pub fn new(name: String, node: String) -> Self {
        Self(Arc::new(Mutex::new(ClusterState {
            name,
            connected: false,
            since: SystemTime::now(),
            trouble: None,
            synced: false,
            last_event: None,
            last_relist: None,
            relists: 0,
            services: 0,
            endpoint_slices: 0,
            endpoints: 0,
            nodes: 0,
            service_cidrs: None,
            pending: 0,
            pending_since: None,
            node: ClusterNode {
                name: node,
                ..ClusterNode::default()
            },
            untranslated: BTreeMap::new(),
            unreadable: 0,
            first_unreadable: Vec::new(),
        })))
    }

    /// Returns the state as it is now.
    pub fn snapshot(&self) -> ClusterState {
        self.update(|state| state.clone())
    }

    /// Looks at it without a copy, or changes it.
    pub fn update<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
