//! Reports of sources and servers beside the queue: state that must be seen when the event loop
//! is stuck, too.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    net::IpAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime},
};

use shunt_api::view::{LocalApi, TakeOver};
use tokio::sync::watch;

use crate::{
    consul_state::{ConsulMonitor, ConsulState},
    contact::Contact,
    health::{ByFamily, Health, Pending},
    health_checks::{Announced, HealthCheckChange, HealthChecks},
    host_complaints::{HostComplaints, HostPart},
    ip_family::IpFamily,
    listeners::{Listener, ListenerState, Listeners},
    local_monitor::LocalMonitor,
    meters::Meters,
};

/// The reports. A source reaches them through its [queue](crate::EventQueue::reports), a server
/// reads them.
#[derive(Debug, Default)]
pub struct Reports {
    health: Mutex<Health>,
    queued: Mutex<Waiting>,
    sources: Mutex<BTreeMap<&'static str, Contact>>,
    health_checks: watch::Sender<HealthChecks>,
    listeners: watch::Sender<Listeners>,
    take_over: Mutex<Option<TakeOver>>,
    local: Mutex<Option<LocalMonitor>>,
    consul: Mutex<Option<ConsulMonitor>>,
    host: Mutex<HostComplaints>,
    socket_recreated: AtomicU64,
    workloads_awaited: watch::Sender<bool>,
    meters: Meters,
}

/// The events that wait or are being applied: since when each does, by the order in which they came.
#[derive(Debug, Default)]
struct Waiting {
    since: BTreeMap<u64, Instant>,
    next: u64,
}

/// The value, also if another thread panicked with it: each change of it is whole.
fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Reports {
    /// Sets whether load balancers may send new connections to this node. A source that can know
    /// sets `false` at its start.
    pub fn set_node_eligible(&self, eligible: bool) {
        lock(&self.health).node_eligible = Some(eligible);
    }

    /// Sets whether the first workloads (pods, machines outside the cluster) are still to be applied. A source that reads
    /// workloads sets `true` at its start.
    pub fn set_workloads_awaited(&self, awaited: bool) {
        let set = |before: &mut bool| mem::replace(before, awaited) != awaited;
        self.workloads_awaited.send_if_modified(set);
    }

    /// Returns whether the first workloads are still to be applied.
    pub fn are_workloads_awaited(&self) -> bool {
        *self.workloads_awaited.borrow()
    }

    /// Waits until the first workloads are applied, or not awaited any more.
    pub(crate) async fn workloads_known(&self) {
        let mut awaited = self.workloads_awaited.subscribe();
        // The sender is here.
        drop(awaited.wait_for(|awaited| !awaited).await);
    }

    /// Sets what waits in a source to be applied, which is what health is judged by. To be called
    /// whenever that changes, with nothing pending when all has been applied.
    pub fn set_pending(&self, pending: Pending) {
        lock(&self.health).pending = pending;
    }

    /// Sets whether pinned tables translate until the first event.
    pub fn set_over_pinned_tables(&self, are_there: bool) {
        lock(&self.health).over_pinned_tables = are_there;
    }

    /// Counts changes that a source has heard of, whatever becomes of them.
    pub fn count_changes(&self, services: u64, endpoints: u64) {
        self.meters.service_changes.inc_by(services);
        self.meters.endpoint_changes.inc_by(endpoints);
    }

    /// Sets the contact of the source called `name` with the server that it listens to. A source that listens to
    /// several may report each of them under a name of its own.
    pub fn set_source(&self, name: &'static str, state: Contact) {
        lock(&self.sources).insert(name, state);
    }

    /// Sets the addresses of this node where health checks of services are answered; an empty set means all.
    pub fn set_health_check_addresses(&self, addresses: BTreeSet<IpAddr>) {
        self.health_checks.send_if_modified(|checks| {
            let differs = checks.addresses != addresses;
            checks.addresses = addresses;
            differs
        });
    }

    /// Returns the state of each listener, as it is and whenever it changes: a source may notify its cluster
    /// of a port that cannot be had.
    pub fn listeners(&self) -> watch::Receiver<Listeners> {
        self.listeners.subscribe()
    }

    /// The health checks, as they are and whenever they change.
    pub fn health_checks(&self) -> watch::Receiver<HealthChecks> {
        self.health_checks.subscribe()
    }

    /// Returns the state by which health is judged.
    pub fn health(&self) -> Health {
        lock(&self.health).clone()
    }

    /// Returns the contact of each source.
    pub fn sources(&self) -> BTreeMap<&'static str, Contact> {
        lock(&self.sources).clone()
    }

    /// Sets the state of the take-over from kube-proxy.
    pub fn set_take_over(&self, state: TakeOver) {
        *lock(&self.take_over) = Some(state);
    }

    /// Replaces what of this part of the host stands in the way, a sentence each. Logs what has changed.
    pub fn set_host(&self, part: HostPart, complaints: Vec<String>) {
        lock(&self.host).set(part, complaints);
    }

    /// Returns the conditions of the host that stand in the way.
    pub(crate) fn host(&self) -> Vec<String> {
        lock(&self.host).all()
    }

    /// The file of the agent's socket was made anew.
    pub fn count_socket(&self) {
        self.socket_recreated.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns how often the socket's file was made anew.
    pub(crate) fn socket_recreated(&self) -> u64 {
        self.socket_recreated.load(Ordering::Relaxed)
    }

    /// Sets the monitor of the source that follows Consul.
    pub fn set_consul(&self, monitor: ConsulMonitor) {
        *lock(&self.consul) = Some(monitor);
    }

    /// Returns the state of the source that follows Consul, if there is one.
    pub fn consul(&self) -> Option<ConsulState> {
        lock(&self.consul).as_ref().map(ConsulMonitor::snapshot)
    }

    /// Returns the state of the take-over from kube-proxy, if it was set.
    pub(crate) fn take_over(&self) -> Option<TakeOver> {
        lock(&self.take_over).clone()
    }

    /// Sets the monitor of what is registered with the agent itself.
    pub fn set_local(&self, monitor: LocalMonitor) {
        *lock(&self.local) = Some(monitor);
    }

    /// Returns what is registered with the agent itself, if anything can be.
    pub fn local(&self) -> Option<LocalApi> {
        let monitor = lock(&self.local).clone();
        monitor.map(|monitor| monitor.look())
    }

    /// Returns the meters.
    pub const fn meters(&self) -> &Meters {
        &self.meters
    }

    /// Sets the state of a listener; `None`: it is wanted no longer.
    pub fn set_listener(&self, listener: &Listener, state: Option<ListenerState>) {
        self.listeners.send_if_modified(|listeners| match state {
            Some(state) => listeners.insert(listener.clone(), state.clone()) != Some(state),
            None => listeners.remove(listener).is_some(),
        });
    }

    /// Returns the age of the oldest change that is not applied yet, of each family, in a source or in the queue; zero
    /// if none waits. An event that is taken out of the queue makes the next one no younger.
    pub fn oldest_change(&self) -> ByFamily<Duration> {
        let queued = lock(&self.queued).since.values().next().copied();
        let pending = lock(&self.health).pending.oldest;
        let now = Instant::now();
        let waited = |pending: Option<Instant>| {
            let oldest = pending.into_iter().chain(queued).min();
            oldest.map_or(Duration::ZERO, |since| now.saturating_duration_since(since))
        };
        ByFamily {
            v4: waited(pending.v4),
            v6: waited(pending.v6),
        }
    }

    /// An event was put into the queue. Returns its number, by which [`Self::unqueued`] knows it.
    pub(super) fn queued(&self) -> u64 {
        let now = Instant::now();
        lock(&self.health).queue(now);
        self.meters.queued(SystemTime::now());
        let Waiting { since, next } = &mut *lock(&self.queued);
        let number = *next;
        since.insert(number, now);
        *next += 1;
        number
    }

    /// An event was done with, whatever became of it.
    pub(super) fn unqueued(&self, number: u64) {
        lock(&self.queued).since.remove(&number);
        lock(&self.health).unqueue(Instant::now());
    }

    /// Does what keeps the event loop from everything else, which is seen meanwhile.
    pub(super) fn while_busy<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.health).busy = Some(Instant::now());
        let result = work();
        lock(&self.health).busy = None;
        result
    }

    /// An event was applied.
    pub(super) fn updated(&self, at: SystemTime) {
        let updated = &mut lock(&self.health).updated;
        for family in IpFamily::ALL {
            *updated.of_mut(family) = Some(at);
        }
    }

    /// A Resync was applied.
    pub(super) fn synced(&self) {
        lock(&self.health).synced = true;
    }

    /// Sets whether an event waits for a decision of an operator.
    pub(super) fn set_undecided(&self, is_undecided: bool) {
        lock(&self.health).is_undecided = is_undecided;
    }

    /// Replaces the hooks that the kernel refused.
    pub(super) fn set_failed_hooks(&self, failed: &[String]) {
        let known = &mut lock(&self.health).failed_hooks;
        if known != failed {
            *known = failed.to_vec();
        }
    }

    /// Health checks are going to change so, once an event is applied. If it is not, the result has to be
    /// [taken back](Self::take_back).
    pub(super) fn announce(&self, change: &HealthCheckChange) -> Announced {
        let mut announced = None;
        self.health_checks.send_if_modified(|checks| {
            let fell = checks.announce(change);
            !announced.insert(fell).is_empty()
        });
        // The function above is always called.
        announced.unwrap_or_default()
    }

    /// The event was not applied.
    pub(super) fn take_back(&self, announced: Announced) {
        self.health_checks.send_if_modified(|checks| {
            let is_empty = announced.is_empty();
            checks.take_back(announced);
            !is_empty
        });
    }

    /// The event is applied.
    pub fn apply(&self, change: HealthCheckChange) {
        self.health_checks
            .send_if_modified(|checks| checks.apply(change));
    }
}
