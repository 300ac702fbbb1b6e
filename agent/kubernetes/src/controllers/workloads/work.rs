//! The controller of workloads: it watches, and as long as it leads it writes slices.

mod judge;
mod judge_links;
mod sync;
mod take;
mod tell;
#[cfg(test)]
mod tests;
mod watches;

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant},
};

use kube::Client;
use shunt_model::ServiceId;
use shunt_runtime::until;
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    task::JoinSet,
    time::{MissedTickBehavior, interval},
};

use self::{
    judge_links::JudgeLinks,
    watches::{Change, wanted, watch_all},
};
use crate::{
    controllers::{
        election::{Ballot, Term},
        meters::ControllerMeters,
        workloads::{
            allowed::Allowed,
            early::Early,
            events::{Notice, channel, record},
            options::WorkloadOptions,
            probes::prober::Prober,
            queue::Queue,
            store::Store,
            verdicts::{Refused, Trouble, Verdicts},
            write_error::WriteError,
            writer::Outcome,
        },
    },
    links::{CustomLinks, Link},
    objects::{
        custom::CustomKind,
        external_workload::{Group, WorkloadKey},
    },
    watch::{backoff::Backoff, client::Access},
};

/// Number of changes that may wait before their watches do.
const AHEAD: usize = 256;

/// Number of Services that are written at once.
const AT_ONCE: usize = 8;

/// Interval at which all that there is is counted.
const COUNT: Duration = Duration::from_secs(1);

/// Interval at which those that were given up are tried again.
const REVIVE: Duration = Duration::from_mins(10);

/// Result of a task.
enum Finished {
    Slices(ServiceId, Outcome),
    Status(Arc<WorkloadKey>, Result<(), WriteError>),
}

/// State of the controller.
struct WorkloadWork {
    client: Client,
    ballot: Ballot,
    meters: Arc<ControllerMeters>,
    notices: Sender<Notice>,
    store: Store,
    services_link: Link,
    slices_link: Link,
    linkerds_link: Option<Link>,
    judge_links: JudgeLinks,
    links: CustomLinks,
    /// True if it is known which kinds are defined, and of which of them all objects are known. What the server
    /// does not list must not be taken for nothing: slices would be removed.
    definitions_are_listed: bool,
    listed: BTreeSet<CustomKind>,
    leads: bool,
    queue: Queue<ServiceId>,
    statuses: Queue<Arc<WorkloadKey>>,
    prober: Prober,
    allowed: Allowed,
    /// The workloads that have an address which they may not have.
    refused: HashMap<Arc<WorkloadKey>, Refused>,
    verdicts: Verdicts,
    /// The workloads and Services of which an Event was made, and what for.
    told: HashMap<Arc<WorkloadKey>, Trouble>,
    told_services: BTreeSet<ServiceId>,
    writing: JoinSet<Finished>,
    early: Early,
    backoff: Backoff,
    /// Time from which requests to the server are allowed again.
    rest_until: Option<Instant>,
    /// True if the server did not answer a watch.
    was_lost: bool,
}

/// Runs for as long as there is an election.
pub(in super::super) async fn run(
    options: WorkloadOptions,
    access: Access,
    ballot: Ballot,
    identity: String,
    meters: Arc<ControllerMeters>,
    mut term: watch::Receiver<Term>,
) {
    let mut tasks = JoinSet::new();
    let client = access.client();
    let (notices, receiver) = channel();
    tasks.spawn(record(client.clone(), identity, receiver));
    let (steps, changes) = mpsc::channel(AHEAD);
    let defined = watch::Sender::default();
    watch_all(&mut tasks, &access, &options, &steps, &defined);
    let work = WorkloadWork::new(options, client, ballot, meters, notices);
    work.go_on(changes, defined, &mut term).await;
}

impl WorkloadWork {
    /// Knows nothing yet.
    fn new(
        options: WorkloadOptions,
        client: Client,
        ballot: Ballot,
        meters: Arc<ControllerMeters>,
        notices: Sender<Notice>,
    ) -> Self {
        Self {
            client,
            ballot,
            prober: Prober::new(options.probes, Arc::clone(&meters)),
            meters,
            notices,
            store: Store::new(options.in_kube_system),
            services_link: Link::default(),
            slices_link: Link::default(),
            linkerds_link: options.linkerd.then(Link::default),
            judge_links: JudgeLinks::default(),
            links: CustomLinks::of(wanted(&options)),
            allowed: Allowed::new(options.ranges),
            refused: HashMap::new(),
            definitions_are_listed: false,
            listed: BTreeSet::new(),
            leads: false,
            queue: Queue::default(),
            statuses: Queue::default(),
            verdicts: Verdicts::default(),
            told: HashMap::new(),
            told_services: BTreeSet::new(),
            writing: JoinSet::new(),
            early: Early::default(),
            backoff: Backoff::new(),
            rest_until: None,
            was_lost: false,
        }
    }

    async fn go_on(
        mut self,
        mut changes: Receiver<Change>,
        defined: watch::Sender<BTreeSet<CustomKind>>,
        term: &mut watch::Receiver<Term>,
    ) {
        let mut revivals = interval(REVIVE);
        revivals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut counts = interval(COUNT);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut next = self.rest_until;
            let does_lead = term.borrow_and_update().is_now();
            if std::mem::replace(&mut self.leads, does_lead) != does_lead {
                self.start_anew();
            }
            if does_lead && self.is_complete() {
                self.write_what_is_due();
                // One that is due has to wait for a place, and is looked at when a task ends.
                if next.is_none() && self.writing.len() < AT_ONCE {
                    next = self.next_at();
                }
            }
            tokio::select! {
                Some(change) = changes.recv() => {
                    self.take(change);
                    for _ in 0..AHEAD {
                        let Ok(change) = changes.try_recv() else { break };
                        self.take(change);
                    }
                    let now: BTreeSet<CustomKind> = self.links.defined().collect();
                    defined.send_if_modified(|known| {
                        let is_new = *known != now;
                        *known = now;
                        is_new
                    });
                }
                changed = term.changed() => {
                    if changed.is_err() {
                        return;
                    }
                }
                Some(Ok(finished)) = self.writing.join_next(), if !self.writing.is_empty() => {
                    match finished {
                        Finished::Slices(id, outcome) => self.slices_done(&id, outcome),
                        Finished::Status(key, done) => self.status_done(&key, done),
                    }
                }
                Some(key) = self.prober.next() => self.statuses.add(key),
                () = until(next) => {
                    if self.rest_until.is_some_and(|until| until <= Instant::now()) {
                        self.rest_until = None;
                    }
                }
                _ = revivals.tick() => self.revive(),
                _ = counts.tick() => self.measure(),
            }
        }
    }

    /// Returns whether everything is known that slices are made of.
    fn is_complete(&self) -> bool {
        self.is_heard()
            && self.definitions_are_listed
            && self.links.defined().all(|kind| self.listed.contains(&kind))
    }

    /// Returns whether all watches have begun, or it is logged why they cannot.
    fn is_heard(&self) -> bool {
        let theirs = self.linkerds_link.as_ref();
        self.services_link.is_complete
            && self.slices_link.is_complete
            && theirs.is_none_or(|link| link.is_complete)
            && self.judge_links.are_complete()
            && self.links.are_complete()
    }

    /// Starts anew when it gains or loses the lead: nothing of before counts, and the leader looks at all.
    fn start_anew(&mut self) {
        self.queue.clear();
        self.statuses.clear();
        self.store.forget_written();
        for id in self.store.all() {
            self.queue.add(id);
        }
        let keys = self.workload_keys();
        self.prober.stop();
        keys.into_iter().for_each(|key| self.changed(key));
    }

    fn workload_keys(&self) -> Vec<Arc<WorkloadKey>> {
        let workloads = self.store.workloads();
        workloads
            .map(|workload| Arc::clone(&workload.key))
            .collect()
    }

    fn revive(&mut self) {
        self.queue.revive();
        self.statuses.revive();
    }

    fn next_at(&self) -> Option<Instant> {
        let both = [self.queue.next_at(), self.statuses.next_at()];
        both.into_iter().flatten().min()
    }

    fn write_what_is_due(&mut self) {
        let now = Instant::now();
        while self.rest_until.is_none()
            && self.writing.len() < AT_ONCE
            && let Some(id) = self.queue.take(now)
        {
            self.sync(id, now);
        }
        // Users' messages follow from what is published.
        while self.rest_until.is_none()
            && self.writing.len() < AT_ONCE
            && let Some(key) = self.statuses.take(now)
        {
            self.tell(key, now);
        }
    }

    /// Nothing is written for a while.
    fn rest(&mut self, pause: Duration) {
        let until = Instant::now() + pause;
        self.rest_until = Some(self.rest_until.map_or(until, |known| known.max(until)));
    }

    fn measure(&self) {
        let mut counts = [0, 0];
        let mut unreadable = 0;
        for workload in self.store.workloads() {
            counts[usize::from(workload.key.group == Group::Linkerd)] += 1;
            unreadable += usize::from(workload.body.is_err());
        }
        let (slices, endpoints) = self.store.count_slices();
        self.meters
            .set_workloads(counts, unreadable, self.verdicts.len(), self.refused.len());
        self.meters.set_slices(slices, endpoints);
        self.meters
            .set_queue(self.queue.len(), self.queue.dropped());
    }
}
