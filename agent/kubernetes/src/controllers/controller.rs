//! The controller: it watches, and as long as it leads it writes.

use std::{
    collections::{BTreeSet, HashMap, HashSet, VecDeque},
    fmt, io, mem,
    sync::Arc,
    time::Duration,
};

use futures_util::future::OptionFuture;
use kube::{Client, Config};
use shunt_model::ServiceId;
use shunt_runtime::{Reports, until};
use tokio::{
    sync::{mpsc, watch},
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tracing::{debug, info, warn};

use crate::{
    controllers::{
        election::{Ballot, Election, Term},
        mending::Mending,
        meters::{ControllerMeters, Wrote},
        observed::{Change, Observed, Report},
        options::ControllerOptions,
        workloads::work,
        writer::{Done, WriteError, write},
    },
    objects::custom::CustomKind,
    routes::{book::RouteKind, change::watch_routes},
    watch::{
        backoff::Backoff,
        client::{Access, ApiServerError, client},
        kind::{Selectors, Services},
        watcher::Watcher,
    },
};

/// Number of changes that may wait before their watches do.
const AHEAD: usize = 256;

/// Number of statuses that are read and written at once.
const AT_ONCE: usize = 8;

/// Interval at which the controller looks around if nothing happens.
const ROUND: Duration = Duration::from_secs(5);

/// Interval at which all statuses are looked at: another writer may have changed ours.
const RECHECK: Duration = Duration::from_mins(10);

/// Maximum time of an answer about the Lease.
const ANSWER: Duration = Duration::from_secs(5);

/// Key of a route: its kind, its name, and the uid that no other one of that name has or had.
type Key = (RouteKind, ServiceId, Box<str>);

/// The one writer of the status of routes.
pub struct Controller {
    options: ControllerOptions,
    config: Config,
    reports: Arc<Reports>,
    meters: Arc<ControllerMeters>,
}

impl fmt::Debug for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Controller")
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Controller {
    /// Looks up how the API server is reached, and asks it nothing yet.
    ///
    /// # Errors
    ///
    /// It is not known how to reach the server, or as whom.
    pub async fn new(options: ControllerOptions) -> Result<Self, ApiServerError> {
        let config = options.api_server.config().await?;
        Ok(Self {
            options,
            config,
            reports: Arc::default(),
            meters: Arc::default(),
        })
    }

    /// Returns the meters and the reports, for display.
    pub fn meters(&self) -> (&Arc<ControllerMeters>, &Arc<Reports>) {
        (&self.meters, &self.reports)
    }

    /// Watches, and writes as long as it leads, until `stop`; then it gives its Lease back.
    ///
    /// # Errors
    ///
    /// There is no way to reach the server.
    pub async fn run(self, stop: impl Future<Output = ()>) -> io::Result<()> {
        let Self {
            options,
            config,
            reports,
            meters,
        } = self;
        let lease = options.lease;
        let namespace =
            (lease.namespace.clone()).unwrap_or_else(|| config.default_namespace.clone());
        info!(
            "following Kubernetes at {}; whoever has the Lease {namespace}/{} writes, and this is {}",
            config.cluster_url, lease.name, lease.identity
        );
        let access = Access::new(config.clone(), reports).map_err(io::Error::other)?;
        // Of its own: an answer that does not come must not keep the Lease from being renewed.
        let mut for_lease = config;
        for_lease.read_timeout = Some(ANSWER);
        for_lease.write_timeout = Some(ANSWER);
        for_lease.reset_reader_on_write = true;
        let for_lease = client(for_lease).map_err(io::Error::other)?;
        let mut election = Election::start(for_lease.clone(), &namespace, &lease);
        let ballot = Ballot::new(for_lease, &namespace, &lease, election.term.clone());
        let mut watchers = JoinSet::new();
        let (defined, changes) = watch_all(&mut watchers, &access, options.proxy_name.as_deref());
        // Beside the routes, and as long as these.
        let workloads = options.workloads.is_on().then(|| {
            let (ballot, meters) = (ballot.clone(), Arc::clone(&meters));
            let term = election.term.clone();
            work::run(
                options.workloads,
                access.clone(),
                ballot,
                lease.identity,
                meters,
                term,
            )
        });
        if workloads.is_none() {
            meters.set_workloads_ready();
        }
        let workloads = OptionFuture::from(workloads);
        let work = Work {
            client: access.client(),
            ballot,
            meters,
            observed: Observed::default(),
            known: HashMap::new(),
            mending: Mending::default(),
            due: VecDeque::new(),
            writing: JoinSet::new(),
            busy: HashSet::new(),
            is_late: false,
            backoff: Backoff::new(),
            rest_until: None,
        };
        tokio::select! {
            () = work.go_on(changes, defined, &mut election.term) => {
                return Err(io::Error::other("nobody stands for the Lease any more"));
            }
            Some(()) = workloads => {
                return Err(io::Error::other("nobody stands for the Lease any more"));
            }
            Some(Err(failed)) = watchers.join_next() => {
                return Err(io::Error::other(failed));
            }
            () = stop => {}
        }
        election.withdraw().await;
        Ok(())
    }
}

/// Begins to watch everything that is read.
fn watch_all(
    watchers: &mut JoinSet<()>,
    access: &Access,
    proxy: Option<&str>,
) -> (watch::Sender<BTreeSet<CustomKind>>, mpsc::Receiver<Change>) {
    let (steps, changes) = mpsc::channel(AHEAD);
    let defined = watch::Sender::default();
    let selectors = Selectors::services(proxy, false);
    let services =
        Watcher::<Services, _>::new(access.clone(), selectors, steps.clone(), Change::Service);
    watchers.spawn(services.run());
    watch_routes(watchers, access, &steps, &defined.subscribe());
    (defined, changes)
}

/// State of the controller.
struct Work {
    client: Client,
    ballot: Ballot,
    meters: Arc<ControllerMeters>,
    observed: Observed,
    /// Known content of the routes' statuses: what was written or read, or what the
    /// server has refused for good.
    known: HashMap<Key, Report>,
    /// Routes that others have changed, since their statuses were right.
    mending: Mending<Key>,
    /// Reports that are to be written.
    due: VecDeque<Report>,
    writing: JoinSet<(Report, Result<Done, WriteError>)>,
    /// Routes whose status is being looked at.
    busy: HashSet<Key>,
    /// True if one of them is due again.
    is_late: bool,
    backoff: Backoff,
    /// Time from which requests to the server are allowed again.
    rest_until: Option<Instant>,
}

fn key(report: &Report) -> Key {
    (report.kind, report.id.clone(), report.uid.clone())
}

impl Work {
    /// For as long as there is an election.
    async fn go_on(
        mut self,
        mut changes: mpsc::Receiver<Change>,
        defined: watch::Sender<BTreeSet<CustomKind>>,
        term: &mut watch::Receiver<Term>,
    ) {
        let mut rounds = interval(ROUND);
        rounds.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut rechecks = interval(RECHECK);
        loop {
            let does_lead = term.borrow_and_update().is_now();
            self.meters.leads.set(does_lead.into());
            if does_lead {
                self.write_what_is_due();
            }
            tokio::select! {
                Some(change) = changes.recv() => {
                    self.take(change);
                    for _ in 0..AHEAD {
                        let Ok(change) = changes.try_recv() else { break };
                        self.take(change);
                    }
                    let now = self.observed.defined();
                    defined.send_if_modified(|known| {
                        let is_new = *known != now;
                        *known = now;
                        is_new
                    });
                    self.look();
                }
                changed = term.changed() => {
                    if changed.is_err() {
                        return;
                    }
                    // What others have written meanwhile is not known.
                    self.known.clear();
                    self.mending = Mending::default();
                    self.look();
                }
                Some(Ok((report, done))) = self.writing.join_next(), if !self.writing.is_empty() => {
                    self.done(&report, done);
                }
                () = until(self.rest_until) => {
                    self.rest_until = None;
                    self.look();
                }
                () = until(self.mending.next_at()) => {
                    self.mending.wake(Instant::now());
                    self.look();
                }
                _ = rechecks.tick() => {
                    self.known.clear();
                    self.look();
                }
                _ = rounds.tick() => {}
            }
            self.meters.look_around();
        }
    }

    /// Takes note of a change.
    fn take(&mut self, change: Change) {
        let now = Instant::now();
        for (kind, route) in change.routes() {
            let key = (kind, (*route.id).clone(), route.uid.clone());
            self.mending.show(&key, &route.version, now);
        }
        self.observed.take(change);
    }

    /// Finds out whose status is to be looked at.
    fn look(&mut self) {
        if !self.observed.is_complete() {
            return;
        }
        self.meters.set_ready();
        for kind in RouteKind::ALL {
            self.meters.set_routes(kind, self.observed.count(kind));
        }
        let reports: HashMap<Key, Report> = (self.observed.reports())
            .map(|report| (key(&report), report))
            .collect();
        self.known.retain(|key, _| reports.contains_key(key));
        self.mending.retain(|key| reports.contains_key(key));
        let due = reports.into_iter();
        let due = due.filter(|(key, report)| {
            self.known.get(key) != Some(report) || self.mending.is_due(key)
        });
        self.due = due.map(|(_, report)| report).collect();
    }

    fn write_what_is_due(&mut self) {
        while self.rest_until.is_none()
            && self.writing.len() < AT_ONCE
            && let Some(report) = self.due.pop_front()
        {
            let key = key(&report);
            // Two at work on one status could end with the content of the earlier one.
            if !self.busy.insert(key.clone()) {
                self.is_late = true;
                continue;
            }
            // Until it is known to be otherwise, so that it is looked at once.
            let known = self.known.insert(key.clone(), report.clone());
            let is_other = known.is_some_and(|known| known != report);
            self.mending.begin(&key, is_other);
            let (client, ballot) = (self.client.clone(), self.ballot.clone());
            self.writing.spawn(async move {
                let done = write(&client, &ballot, &report).await;
                (report, done)
            });
        }
    }

    fn done(&mut self, report: &Report, done: Result<Done, WriteError>) {
        let (kind, id) = (report.kind.name(), &report.id);
        self.busy.remove(&key(report));
        let wrote = match done {
            Ok(Done::Written(version)) => {
                debug!("{kind} {id}: its status is written");
                self.backoff.reset();
                if (self.mending).end(&key(report), &version, true, Instant::now()) {
                    warn!("{kind} {id}: another controller overwrites our entries in its status");
                }
                Wrote::Written
            }
            Ok(Done::Unchanged(version)) => {
                self.backoff.reset();
                (self.mending).end(&key(report), &version, false, Instant::now());
                Wrote::Nothing
            }
            Ok(Done::Outdated) => {
                self.backoff.reset();
                Wrote::Nothing
            }
            Ok(Done::NotLeading) => {
                debug!("{kind} {id}: its status is left to another controller, which leads");
                let pause = self.backoff.pause();
                self.retry(report, pause);
                Wrote::NotLeading
            }
            Err(error) if error.is_final() => {
                warn!("{kind} {id}: the server refuses its status: {error}");
                Wrote::Refused
            }
            Err(error) => {
                debug!("{kind} {id}: its status is tried again: {error}");
                if error.is_conflict() {
                    let pause = self.backoff.pause();
                    self.retry(report, pause);
                    Wrote::Conflict
                } else {
                    let pause = self.backoff.pause_after_error(error.retry_after());
                    self.retry(report, pause);
                    Wrote::Failed
                }
            }
        };
        self.meters.wrote(wrote);
        if mem::take(&mut self.is_late) {
            self.look();
        }
    }

    /// The status is looked at again, after a pause in which the server is left alone.
    fn retry(&mut self, report: &Report, pause: Duration) {
        self.known.remove(&key(report));
        let until = Instant::now() + pause;
        self.rest_until = Some(self.rest_until.map_or(until, |known| known.max(until)));
    }
}
