//! What a source knows of itself, for whoever looks at the agent.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

use ipnet::IpNet;

/// What a source that follows a server knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterState {
    /// Where its events come from, for people.
    pub name: String,
    /// True if everything that is followed is up to date.
    pub connected: bool,
    /// Since when it is, or is not.
    pub since: SystemTime,
    /// Why it is not.
    pub trouble: Option<String>,
    /// True if all was there once, so that the renderer was told.
    pub synced: bool,
    /// When the server last told of a change.
    pub last_event: Option<SystemTime>,
    /// When something was last listed anew, and how often it was.
    pub last_relist: Option<SystemTime>,
    /// How often.
    pub relists: u64,
    /// Services that are known.
    pub services: u64,
    /// EndpointSlices that are known.
    pub endpoint_slices: u64,
    /// Endpoints that are known.
    pub endpoints: u64,
    /// Nodes that are known: this one, and others if their NodePorts are translated.
    pub nodes: u64,
    /// The ranges that cluster IPs are taken from; `None`: the cluster does not say.
    pub service_cidrs: Option<BTreeSet<IpNet>>,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// When the oldest of these changes came.
    pub pending_since: Option<Instant>,
    /// This node.
    pub node: ClusterNode,
    /// What is not translated of each service, and why.
    pub untranslated: BTreeMap<String, Vec<String>>,
    /// How many objects of the server cannot be read.
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

/// What is known of this node.
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

/// The state of a source, shared with whoever shows it.
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

    /// How it is now.
    pub fn snapshot(&self) -> ClusterState {
        self.update(|state| state.clone())
    }

    /// Looks at it without a copy, or changes it.
    pub fn update<T>(&self, change: impl FnOnce(&mut ClusterState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
