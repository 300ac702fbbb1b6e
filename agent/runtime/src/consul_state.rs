//! State of the source that follows Consul, for display.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, PoisonError},
    time::{Instant, SystemTime},
};

/// State of the source that follows Consul.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsulState {
    /// Address of Consul's agent.
    pub address: String,
    /// Its datacenter, once it is known.
    pub datacenter: Option<String>,
    /// Our node there, once it is known.
    pub node: Option<String>,
    /// True if two queries give hints for all services, in place of one each.
    pub hints: bool,
    /// Queries that are followed.
    pub watches: u64,
    /// Watches of them that are not up to date, by service.
    pub stale: BTreeMap<String, StaleWatch>,
    /// True if all was there once, so that the renderer got it.
    pub synced: bool,
    /// Time of the last change in the catalog.
    pub last_change: Option<SystemTime>,
    /// Frontends that are configured.
    pub frontends: u64,
    /// Instances that are known.
    pub instances: u64,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// Since when any of them is not.
    pub pending_since: Option<Instant>,
    /// Rights that the token lacks.
    pub missing_rights: BTreeSet<String>,
    /// Parts of each service that are left out, and why.
    pub skipped: BTreeMap<String, Vec<String>>,
    /// The datacenters to which new connections of services go that want another one more.
    pub failed_over: BTreeMap<String, String>,
    /// The gateways of other datacenters that are known, sorted.
    pub gateways: Vec<KnownGateway>,
    /// Good answers that had something new, since the agent's start.
    pub answers: u64,
    /// Questions without a good answer since then, by what was in the way.
    pub failures: BTreeMap<&'static str, u64>,
}

/// A query that is not up to date.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StaleWatch {
    /// Since when.
    pub since: SystemTime,
    /// Why.
    pub reason: String,
}

/// A gateway of another datacenter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct KnownGateway {
    /// Its datacenter.
    pub datacenter: String,
    /// Its node there.
    pub node: String,
    /// Its id there.
    pub id: String,
    /// True if it may have new connections, by its own checks.
    pub usable: bool,
    /// Name of the place that it is known from.
    pub origin: &'static str,
}

/// The state of the source, shared with its readers.
#[derive(Debug, Clone)]
pub struct ConsulMonitor(Arc<Mutex<ConsulState>>);

impl ConsulMonitor {
    /// That of a source that asks the agent at `address` for so many frontends, and knows nothing yet.
    pub fn new(address: String, frontends: u64) -> Self {
        Self(Arc::new(Mutex::new(ConsulState {
            address,
            datacenter: None,
            node: None,
            hints: false,
            watches: 0,
            stale: BTreeMap::new(),
            synced: false,
            last_change: None,
            frontends,
            instances: 0,
            pending: 0,
            pending_since: None,
            missing_rights: BTreeSet::new(),
            skipped: BTreeMap::new(),
            failed_over: BTreeMap::new(),
            gateways: Vec::new(),
            answers: 0,
            failures: BTreeMap::new(),
        })))
    }

    /// Returns the state as it is now.
    pub fn snapshot(&self) -> ConsulState {
        self.update(|state| state.clone())
    }

    /// Looks at it without a copy, or changes it.
    pub fn update<T>(&self, change: impl FnOnce(&mut ConsulState) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
