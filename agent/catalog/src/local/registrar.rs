//! The registrations, shared by the tasks that serve clients, run checks and send events to the renderer.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    sync::{Notify, mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};
use tracing::warn;

use crate::local::{
    definition::{
        check::Probe,
        file::{Defined, DefinitionError},
    },
    limits::{HttpChecks, named},
    state::{
        check::Check,
        definitions::Definitions,
        effects::{Effects, Subject},
        refusal::Refusal,
        register::Change,
        registry::Registry,
        service::Registered,
        status::Status,
    },
    waiters::{Awaited, Waiters},
};

/// Number of changes that may wait to be written before their senders wait.
const AHEAD: usize = 1024;

/// A change, and the channel of the task that waits until it is written.
pub(super) type Asked = (Change, oneshot::Sender<Result<(), Refusal>>);

/// The registrations. A copy of this is another way to the same.
#[derive(Debug, Clone)]
pub struct Registrar(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    node: LocalNode,
    registry: RwLock<Registry>,
    asked: mpsc::Sender<Asked>,
    waiters: Waiters,
    concerned: Mutex<BTreeSet<String>>,
    is_concerned: Notify,
    /// For tasks that look at all services.
    changes: watch::Sender<()>,
    /// A status has changed since the file was written.
    has_status: Notify,
    /// True if the file lacks a status.
    is_behind: AtomicBool,
    /// Checks have come, gone or changed.
    has_checks: Notify,
    /// A check was reported on, or one is new.
    has_expiry: Notify,
    defined_in: Option<PathBuf>,
    http_checks: HttpChecks,
    written: AtomicU64,
    not_written: AtomicU64,
    troubles: Mutex<Troubles>,
}

/// This host, as services see it.
#[derive(Debug, Clone)]
pub struct LocalNode {
    /// Its name.
    pub name: String,
    /// Address of a service that has none of its own; `None`: nowhere.
    pub address: Option<IpAddr>,
}

/// Present failures, in words.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Troubles {
    /// Why the file cannot be written.
    pub(crate) file: Option<String>,
    /// Why the definitions were not read again.
    pub(crate) definitions: Option<String>,
    /// The checks that are not run.
    pub(crate) forbidden: Option<String>,
}

/// No more clients can wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoPlace;

fn lock<T>(value: &Mutex<T>) -> MutexGuard<'_, T> {
    value.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registrar {
    /// Returns a registrar with this registry, and the receiver of changes to write.
    pub(super) fn new(
        node: LocalNode,
        registry: Registry,
        defined_in: Option<PathBuf>,
        http_checks: HttpChecks,
    ) -> (Self, mpsc::Receiver<Asked>) {
        let (asked, changes) = mpsc::channel(AHEAD);
        let shared = Shared {
            node,
            registry: RwLock::new(registry),
            asked,
            waiters: Waiters::default(),
            concerned: Mutex::default(),
            is_concerned: Notify::new(),
            changes: watch::Sender::new(()),
            has_status: Notify::new(),
            is_behind: AtomicBool::new(false),
            has_checks: Notify::new(),
            has_expiry: Notify::new(),
            defined_in,
            http_checks,
            written: AtomicU64::new(0),
            not_written: AtomicU64::new(0),
            troubles: Mutex::default(),
        };
        (Self(Arc::new(shared)), changes)
    }

    /// This host.
    pub fn node(&self) -> &LocalNode {
        &self.0.node
    }

    /// Returns the present registrations, to look at and not to keep.
    pub fn look(&self) -> RwLockReadGuard<'_, Registry> {
        let registry = &self.0.registry;
        registry.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Registry> {
        let registry = &self.0.registry;
        registry.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has something done, and waits until it is written and has taken effect.
    ///
    /// # Errors
    ///
    /// It is refused, or cannot be written; then it has no effect.
    pub async fn change(&self, change: Change) -> Result<(), Refusal> {
        self.0.http_checks.permit(&change, &self.0.node.name)?;
        let ending = || Refusal::failed("the agent ends");
        let (reply, replied) = oneshot::channel();
        let asked = self.0.asked.send((change, reply)).await;
        asked.map_err(|_| ending())?;
        replied.await.map_err(|_| ending())?
    }

    /// Reads the definitions in files again, if there are any. An error in them changes nothing,
    /// and is shown until they are right.
    ///
    /// # Errors
    ///
    /// They cannot be read, or contain what is refused.
    pub async fn reload(&self) -> Result<(), ReloadError> {
        let Some(path) = self.0.defined_in.clone() else {
            return Ok(());
        };
        let done = self.define(&path).await;
        let trouble = done.as_ref().err().map(ToString::to_string);
        lock(&self.0.troubles).definitions = trouble;
        done
    }

    async fn define(&self, path: &Path) -> Result<(), ReloadError> {
        let read = path.to_owned();
        let defined = tokio::task::spawn_blocking(move || Defined::read(&read)).await;
        let defined = defined.map_err(|error| ReloadError::Refused {
            path: path.to_owned(),
            reason: error.to_string(),
        })??;
        let changed = self.change(Change::Define(defined)).await;
        changed.map_err(|refusal| ReloadError::Refused {
            path: path.to_owned(),
            reason: refusal.to_string(),
        })
    }

    /// A service, at once if its content is not of this hash; else as soon as it is not, or after
    /// `wait`. `None`: it is not there, or has gone meanwhile.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub async fn service(
        &self,
        id: &str,
        hash: Option<&str>,
        wait: Duration,
    ) -> Result<Option<Arc<Registered>>, NoPlace> {
        let there = || self.look().known().service(id).map(Arc::clone);
        let Some(hash) = hash else {
            return Ok(there());
        };
        let is_same = |service: &Arc<Registered>| service.content_hash() == hash;
        if !there().is_some_and(|service| is_same(&service)) {
            return Ok(there());
        }
        let place = self.0.waiters.enter(Awaited::Content(id.to_owned()));
        let place = place.ok_or(NoPlace)?;
        let deadline = Instant::now() + wait;
        loop {
            // From here on it is heard, so that nothing is missed after the look.
            let rung = place.bell().notified();
            let service = there();
            if !service.as_ref().is_some_and(&is_same) {
                return Ok(service);
            }
            if timeout_at(deadline, rung).await.is_err() {
                return Ok(there());
            }
        }
    }

    /// Waits until a client that has seen `index` of this has something to read, or for `wait`. One that has
    /// seen nothing, or has its index from an agent before, waits not at all.
    ///
    /// # Errors
    ///
    /// Too many wait.
    pub async fn newer(&self, subject: Subject, index: u64, wait: Duration) -> Result<(), NoPlace> {
        let is_news = || self.look().indexes().is_news(&subject, index);
        if index == 0 || is_news() {
            return Ok(());
        }
        let place = self.0.waiters.enter(Awaited::Change(subject.clone()));
        let place = place.ok_or(NoPlace)?;
        let deadline = Instant::now() + wait;
        loop {
            // From here on it is heard, so that nothing is missed after the look.
            let rung = place.bell().notified();
            if is_news() || timeout_at(deadline, rung).await.is_err() {
                return Ok(());
            }
        }
    }

    /// A check has come to this verdict.
    pub fn tell(&self, id: &str, status: Status, output: &str) {
        let effects = self.write().tell(id, status, output, Instant::now());
        self.0.has_expiry.notify_one();
        self.follow_up(effects);
    }

    /// That check has come to this verdict, if it is still as it was when it was asked.
    pub(super) fn tell_of(&self, check: &Arc<Check>, status: Status, output: &str) {
        let mut registry = self.write();
        let there = registry.known().check(&check.id);
        if there.is_some_and(|there| there == check) {
            let effects = registry.tell(&check.id, status, output, Instant::now());
            drop(registry);
            self.follow_up(effects);
        }
    }

    /// Has checks critical that an earlier agent took and this one does not run.
    pub(super) fn hold_forbidden(&self) {
        let registry = self.look();
        let checks = registry.known().checks();
        let forbidden = checks.filter_map(|check| Some((check.id.clone(), self.forbids(check)?)));
        let forbidden: Vec<(String, String)> = forbidden.collect();
        drop(registry);
        for (id, reason) in &forbidden {
            self.tell(id, Status::Critical, reason);
        }
        if let Some(text) = self.forbidden() {
            warn!("checks are {text}");
        }
    }

    /// Why a check is not run, if it is not.
    pub(super) fn forbids(&self, check: &Check) -> Option<String> {
        self.0.http_checks.forbids(check)
    }

    /// The checks that are not run, in words.
    fn forbidden(&self) -> Option<String> {
        let registry = self.look();
        let checks = registry.known().checks();
        let checks = checks.filter(|check| self.forbids(check).is_some());
        let ids: Vec<String> = checks.map(|check| check.id.clone()).collect();
        named(&ids)
    }

    /// Makes those checks critical on which no report came in time; returns when to look again.
    pub(super) fn expire(&self) -> Option<Instant> {
        let mut registry = self.write();
        let effects = registry.expire(Instant::now());
        let next = registry.next_expiry();
        drop(registry);
        self.follow_up(effects);
        next
    }

    /// Returns the services that have been critical for longer than one of their checks allows. A check that is
    /// not run does not count.
    pub(super) fn overdue(&self) -> BTreeSet<String> {
        let is_run = |check: &Check| self.forbids(check).is_none();
        self.look().overdue(Instant::now(), is_run)
    }

    /// Has what was written take effect.
    pub(super) fn install(&self, next: Definitions) {
        let effects = self.write().install(next, Instant::now());
        self.0.has_checks.notify_one();
        self.0.has_expiry.notify_one();
        self.follow_up(effects);
    }

    /// Notifies those that it concerns.
    fn follow_up(&self, effects: Effects) {
        let subjects = effects.subjects().into_iter().map(Awaited::Change);
        self.0.waiters.wake(subjects);
        let Effects {
            changed,
            concerned,
            has_status,
            has_checks: _,
        } = effects;
        self.0
            .waiters
            .wake(changed.into_iter().map(Awaited::Content));
        if has_status {
            self.0.is_behind.store(true, Ordering::Release);
            self.0.has_status.notify_one();
        }
        if !concerned.is_empty() {
            lock(&self.0.concerned).extend(concerned);
            self.0.is_concerned.notify_one();
            self.0.changes.send_replace(());
        }
    }

    /// Waits until services are others; returns the names by which frontends look for them.
    pub(super) async fn concerned(&self) -> BTreeSet<String> {
        loop {
            let concerned = mem::take(&mut *lock(&self.0.concerned));
            if !concerned.is_empty() {
                return concerned;
            }
            self.0.is_concerned.notified().await;
        }
    }

    /// Returns a receiver that is notified whenever a service has another content or status.
    pub(super) fn changes(&self) -> watch::Receiver<()> {
        self.0.changes.subscribe()
    }

    /// Waits until a status has changed.
    pub(super) async fn has_status(&self) {
        self.0.has_status.notified().await;
    }

    /// Waits until checks have come, gone or changed.
    pub(super) async fn has_checks(&self) {
        self.0.has_checks.notified().await;
    }

    /// Waits until the next expiry may be another.
    pub(super) async fn has_expiry(&self) {
        self.0.has_expiry.notified().await;
    }

    /// All statuses, which are about to be written.
    pub(super) fn statuses_to_write(&self) -> BTreeMap<String, Status> {
        // What changes from here on is written later.
        self.0.is_behind.store(false, Ordering::Release);
        self.look().statuses()
    }

    /// Returns whether the file lacks a status.
    pub(super) fn is_behind(&self) -> bool {
        self.0.is_behind.load(Ordering::Acquire)
    }

    /// The file was written, or why not.
    pub(super) fn was_written(&self, trouble: Option<String>) {
        if trouble.is_some() {
            self.0.is_behind.store(true, Ordering::Release);
        }
        let counter = match &trouble {
            None => &self.0.written,
            Some(_) => &self.0.not_written,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        lock(&self.0.troubles).file = trouble;
    }

    /// Returns the numbers of writes of the file that succeeded, and that failed.
    pub(crate) fn writes(&self) -> (u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.0.written), count(&self.0.not_written))
    }

    /// Returns the present failures.
    pub(crate) fn troubles(&self) -> Troubles {
        let forbidden = self.forbidden();
        Troubles {
            forbidden,
            ..lock(&self.0.troubles).clone()
        }
    }

    /// Returns the number of clients that wait for a service to change.
    pub(crate) fn waiting(&self) -> usize {
        self.0.waiters.count()
    }

    /// Returns whether clients may report on this check.
    pub fn is_told(&self, id: &str) -> bool {
        let registry = self.look();
        let check = registry.known().check(id);
        check.is_some_and(|check| matches!(check.probe, Probe::Ttl(_)))
    }
}

/// Definitions in files were not taken.
#[derive(Debug, thiserror::Error)]
pub enum ReloadError {
    /// They cannot be read.
    #[error(transparent)]
    Read(#[from] DefinitionError),
    /// They contain what is refused.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// Their path.
        path: PathBuf,
        /// The refused part, and why.
        reason: String,
    },
}
