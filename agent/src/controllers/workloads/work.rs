//! The controller of workloads: it watches, and as long as it leads it writes slices.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
    time::{Duration, Instant, SystemTime},
};

use kube::Client;
use shunt_model::ServiceId;
use tokio::{
    sync::{
        mpsc::{self, Receiver, Sender},
        watch,
    },
    task::JoinSet,
    time::{MissedTickBehavior, interval, sleep_until},
};
use tracing::{debug, info, warn};

use crate::{
    controllers::{
        election::Ballot,
        meters::ControllerMeters,
        workloads::{
            desired::{Desired, LeftOut},
            events::{Notice, channel, record},
            options::WorkloadOptions,
            packing::plan,
            queue::{End, Next, Queue},
            service::{AllServices, Service},
            slice::{LINKERDS, MANAGED_BY, MANAGER, Slice, Slices},
            status::write_status,
            store::Store,
            verdicts::{Verdicts, conditions},
            writer::{Outcome, WriteError, write},
        },
    },
    source::kubernetes::{
        links::{CustomLinks, Link},
        objects::{
            custom::{CustomKind, Definition},
            endpoint_slice::EndpointSlice,
            external_workload::{ExternalWorkload, Group, WorkloadKey},
        },
        watch::{
            backoff::Backoff,
            client::Access,
            defined::watch_while_defined,
            kind::{
                Definitions, EndpointSlices, ExternalWorkloads, LinkerdExternalWorkloads, Selectors,
            },
            step::Step,
            watcher::Watcher,
        },
    },
};

/// How many changes may wait before those who watch do.
const AHEAD: usize = 256;

/// How many Services are written at once.
const AT_ONCE: usize = 8;

/// How often it is counted what there is.
const COUNT: Duration = Duration::from_secs(1);

/// How often those that were given up are tried again.
const REVIVE: Duration = Duration::from_mins(10);

/// What is new.
#[derive(Debug)]
enum Change {
    Definition(Step<Definition>),
    Service(Step<Service>),
    Slice(Step<Slice>),
    Linkerds(Step<EndpointSlice>),
    Workload(Group, Step<ExternalWorkload>),
}

/// What a task has come to.
enum Finished {
    Slices(ServiceId, Outcome),
    Status(Arc<WorkloadKey>, Result<(), WriteError>),
}

/// What the controller is at.
struct WorkloadWork {
    client: Client,
    ballot: Ballot,
    meters: Arc<ControllerMeters>,
    notices: Sender<Notice>,
    store: Store,
    services_link: Link,
    slices_link: Link,
    linkerds_link: Option<Link>,
    links: CustomLinks,
    /// Whether it is known which kinds are defined, and of which of them all objects are known. What the server
    /// does not tell must not be taken for nothing: slices would be removed.
    definitions_are_listed: bool,
    listed: BTreeSet<CustomKind>,
    leads: bool,
    queue: Queue<ServiceId>,
    statuses: Queue<Arc<WorkloadKey>>,
    verdicts: Verdicts,
    /// Of which workloads and Services an Event was made, and what for.
    told: HashMap<Arc<WorkloadKey>, &'static str>,
    told_services: BTreeSet<ServiceId>,
    writing: JoinSet<Finished>,
    backoff: Backoff,
    /// When the server may be asked again.
    rest_until: Option<Instant>,
    /// Whether the server did not answer a watch.
    was_lost: bool,
}

/// Runs for as long as there is an election.
pub(in super::super) async fn run(
    options: WorkloadOptions,
    access: Access,
    ballot: Ballot,
    identity: String,
    meters: Arc<ControllerMeters>,
    mut leads: watch::Receiver<bool>,
) {
    let mut tasks = JoinSet::new();
    let client = access.client().clone();
    let (notices, receiver) = channel();
    tasks.spawn(record(client.clone(), identity, receiver));
    let (steps, changes) = mpsc::channel(AHEAD);
    let defined = watch::Sender::default();
    watch_all(&mut tasks, &access, options, &steps, &defined);
    let wanted: &'static [CustomKind] = match (options.shunt, options.linkerd) {
        (true, true) => &[
            CustomKind::ExternalWorkload,
            CustomKind::LinkerdExternalWorkload,
        ],
        (false, true) => &[CustomKind::LinkerdExternalWorkload],
        (_, false) => &[CustomKind::ExternalWorkload],
    };
    let work = WorkloadWork {
        client,
        ballot,
        meters,
        notices,
        store: Store::new(options.in_kube_system),
        services_link: Link::default(),
        slices_link: Link::default(),
        linkerds_link: options.linkerd.then(Link::default),
        links: CustomLinks::of(wanted),
        definitions_are_listed: false,
        listed: BTreeSet::new(),
        leads: false,
        queue: Queue::default(),
        statuses: Queue::default(),
        verdicts: Verdicts::default(),
        told: HashMap::new(),
        told_services: BTreeSet::new(),
        writing: JoinSet::new(),
        backoff: Backoff::new(),
        rest_until: None,
        was_lost: false,
    };
    work.go_on(changes, defined, &mut leads).await;
}

fn watch_all(
    tasks: &mut JoinSet<()>,
    access: &Access,
    options: WorkloadOptions,
    steps: &Sender<Change>,
    defined: &watch::Sender<BTreeSet<CustomKind>>,
) {
    let all = Selectors::default;
    let definitions =
        Watcher::<Definitions, _>::new(access.clone(), all(), steps.clone(), Change::Definition);
    tasks.spawn(definitions.run());
    let services =
        Watcher::<AllServices, _>::new(access.clone(), all(), steps.clone(), Change::Service);
    tasks.spawn(services.run());
    let of = |manager: &str| Selectors::labelled(&format!("{MANAGED_BY}={manager}"));
    let slices =
        Watcher::<Slices, _>::new(access.clone(), of(MANAGER), steps.clone(), Change::Slice);
    tasks.spawn(slices.run());
    if options.shunt {
        tasks.spawn(watch_while_defined::<ExternalWorkloads, Change>(
            Group::Shunt.kind(),
            access.clone(),
            steps.clone(),
            |step| Change::Workload(Group::Shunt, step),
            defined.subscribe(),
        ));
    }
    if options.linkerd {
        let theirs = Watcher::<EndpointSlices, _>::new(
            access.clone(),
            of(LINKERDS),
            steps.clone(),
            Change::Linkerds,
        );
        tasks.spawn(theirs.run());
        tasks.spawn(watch_while_defined::<LinkerdExternalWorkloads, Change>(
            Group::Linkerd.kind(),
            access.clone(),
            steps.clone(),
            |step| Change::Workload(Group::Linkerd, step),
            defined.subscribe(),
        ));
    }
}

impl WorkloadWork {
    async fn go_on(
        mut self,
        mut changes: Receiver<Change>,
        defined: watch::Sender<BTreeSet<CustomKind>>,
        leads: &mut watch::Receiver<bool>,
    ) {
        let mut revivals = interval(REVIVE);
        revivals.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut counts = interval(COUNT);
        counts.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let mut next = self.rest_until;
            let does_lead = *leads.borrow_and_update();
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
                changed = leads.changed() => {
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
                () = until(next), if next.is_some() => {
                    if self.rest_until.is_some_and(|until| until <= Instant::now()) {
                        self.rest_until = None;
                    }
                }
                _ = revivals.tick() => self.revive(),
                _ = counts.tick() => self.measure(),
            }
        }
    }

    /// Whether everything is known that slices are made of.
    fn is_complete(&self) -> bool {
        self.is_heard()
            && self.definitions_are_listed
            && self.links.defined().all(|kind| self.listed.contains(&kind))
    }

    /// Whether all watches have begun, or it is said why they cannot.
    fn is_heard(&self) -> bool {
        let theirs = self.linkerds_link.as_ref();
        self.services_link.is_complete
            && self.slices_link.is_complete
            && theirs.is_none_or(|link| link.is_complete)
            && self.links.are_complete()
    }

    /// Whether it leads has changed: nothing of before counts, and all is looked at by the one that leads.
    fn start_anew(&mut self) {
        self.queue.clear();
        self.statuses.clear();
        self.store.forget_written();
        for id in self.store.all() {
            self.queue.add(id);
        }
        let keys: Vec<Arc<WorkloadKey>> = self
            .store
            .workloads()
            .map(|workload| Arc::clone(&workload.key))
            .collect();
        keys.into_iter().for_each(|key| self.statuses.add(key));
    }

    fn revive(&mut self) {
        self.queue.revive();
        self.statuses.revive();
    }

    fn next_at(&self) -> Option<Instant> {
        let both = [self.queue.next_at(), self.statuses.next_at()];
        both.into_iter().flatten().min()
    }

    fn take(&mut self, change: Change) {
        self.note(change);
        if self.is_heard() {
            self.meters.set_workloads_ready();
        }
    }

    fn note(&mut self, change: Change) {
        let is_lost = match &change {
            Change::Definition(step) => is_lost(step),
            Change::Service(step) => is_lost(step),
            Change::Slice(step) => is_lost(step),
            Change::Linkerds(step) => is_lost(step),
            Change::Workload(_, step) => is_lost(step),
        };
        if !is_lost && std::mem::take(&mut self.was_lost) {
            self.revive();
        }
        self.was_lost |= is_lost;
        let mut changed = BTreeSet::new();
        let concerned = match change {
            Change::Definition(step) => {
                let mut concerned = BTreeSet::new();
                self.definitions_are_listed |= matches!(step, Step::Listed(_));
                for kind in self.links.define(&step) {
                    self.listed.remove(&kind);
                    let group = match kind {
                        CustomKind::ExternalWorkload => Group::Shunt,
                        CustomKind::LinkerdExternalWorkload => Group::Linkerd,
                        _ => continue,
                    };
                    let none = Step::Listed(Vec::new());
                    concerned.extend(self.store.take_workloads(group, none, &mut changed));
                }
                concerned
            }
            Change::Service(step) => {
                self.services_link.follow("Services", &step);
                self.store.take_services(step)
            }
            Change::Slice(step) => {
                self.slices_link
                    .follow("EndpointSlices of workloads", &step);
                self.store.take_slices(step, Instant::now())
            }
            Change::Linkerds(step) => {
                let link = self.linkerds_link.get_or_insert_with(Link::default);
                link.follow("EndpointSlices of linkerd's workloads", &step);
                self.store.take_linkerds(step)
            }
            Change::Workload(group, step) => {
                if self.links.follow(group.kind(), &step) {
                    if matches!(step, Step::Listed(_)) {
                        self.listed.insert(group.kind());
                    }
                    self.store.take_workloads(group, step, &mut changed)
                } else {
                    BTreeSet::new()
                }
            }
        };
        concerned.into_iter().for_each(|id| self.queue.add(id));
        changed.into_iter().for_each(|key| self.statuses.add(key));
    }

    fn write_what_is_due(&mut self) {
        let now = Instant::now();
        while self.rest_until.is_none()
            && self.writing.len() < AT_ONCE
            && let Some(id) = self.queue.take(now)
        {
            self.sync(id, now);
        }
        // What users are told follows from what is published.
        while self.rest_until.is_none()
            && self.writing.len() < AT_ONCE
            && let Some(key) = self.statuses.take(now)
        {
            self.tell(key, now);
        }
    }

    /// Has the slices of a Service be what they are to be.
    fn sync(&mut self, id: ServiceId, now: Instant) {
        let service = self.store.service(&id).cloned();
        let Some(service) = service.filter(|service| service.has_endpoints()) else {
            // Its slices go with it, or are nobody's any more: the cluster's garbage collector has them.
            self.leave_out(&id, BTreeMap::new());
            self.queue.end(&id, End::Done, now);
            return;
        };
        if self.store.is_out_of_date(&id, now) {
            debug!("Service {id}: what is known of its slices is older than what was written");
            self.failed(
                &service,
                End::Failed,
                "what is known of its slices is out of date",
                now,
            );
            return;
        }
        let is_linkerds = self.store.is_linkerds(&id);
        if is_linkerds && self.told_services.insert(id.clone()) {
            let note = "linkerd's own controller publishes its ExternalWorkloads of linkerd: they are left to it";
            info!("Service {id}: {note}");
            self.notify(Notice::of_service(
                &service,
                "LeftToLinkerd",
                note.to_owned(),
            ));
        }
        if !is_linkerds {
            self.told_services.remove(&id);
        }
        let selected = self.store.selected(&service);
        let selected =
            selected.filter(|workload| !is_linkerds || workload.key.group != Group::Linkerd);
        let mut desired = Desired::of(&service, selected);
        let lists = plan(&service, &self.store.slices(&id), &desired);
        self.leave_out(&id, std::mem::take(&mut desired.left_out));
        if lists.is_empty() {
            self.meters.synced("nothing");
            self.queue.end(&id, End::Done, now);
            return;
        }
        let (client, ballot) = (self.client.clone(), self.ballot.clone());
        self.writing.spawn(async move {
            let outcome = write(&client, &ballot, &service, lists).await;
            Finished::Slices(id, outcome)
        });
    }

    fn leave_out(&mut self, id: &ServiceId, left_out: BTreeMap<Arc<WorkloadKey>, LeftOut>) {
        let changed = self.verdicts.set(id, left_out);
        changed.into_iter().for_each(|key| self.statuses.add(key));
    }

    fn slices_done(&mut self, id: &ServiceId, outcome: Outcome) {
        let now = Instant::now();
        let Outcome {
            written,
            gone,
            counts,
            failure,
        } = outcome;
        self.meters
            .wrote_slices(counts.created, counts.updated, counts.deleted);
        written
            .into_iter()
            .for_each(|slice| self.store.written(slice, now));
        gone.iter().for_each(|slice| self.store.deleted(slice, now));
        let Some(error) = failure else {
            self.meters.synced("written");
            self.backoff.reset();
            self.queue.end(id, End::Done, now);
            return;
        };
        self.meters.synced(error.name());
        debug!("Service {id}: its slices are not all written: {error}");
        let Some(service) = self.store.service(id).cloned() else {
            self.queue.end(id, End::Done, now);
            return;
        };
        match &error {
            WriteError::NamespaceTerminating => {
                self.queue.end(id, End::Done, now);
            }
            WriteError::Conflict => self.failed(&service, End::Failed, &error.to_string(), now),
            WriteError::Forbidden(_) => {
                // For want of quota, say: users see it at once, and it is tried again.
                warn!("Service {id}: {error}");
                self.notify(Notice::of_service(
                    &service,
                    "FailedToPublish",
                    error.to_string(),
                ));
                self.failed(&service, End::Failed, &error.to_string(), now);
            }
            WriteError::Invalid(_) => self.failed(&service, End::Refused, &error.to_string(), now),
            WriteError::Unavailable { retry_after, .. } => {
                self.rest(*retry_after);
                self.queue.end(id, End::Again, now);
            }
            WriteError::NotLeading => {
                self.rest(None);
                self.queue.end(id, End::Again, now);
            }
        }
    }

    /// Nothing is written for a while.
    fn rest(&mut self, wish: Option<Duration>) {
        let until = Instant::now() + self.backoff.pause(wish);
        self.rest_until = Some(self.rest_until.map_or(until, |known| known.max(until)));
    }

    fn failed(&mut self, service: &Service, end: End, why: &str, now: Instant) {
        if self.queue.end(&service.id, end, now) == Next::Dropped {
            warn!(
                "Service {}: its workloads are not published, until something changes or {REVIVE:?} have \
                 passed: {why}",
                service.id
            );
            self.meters.dropped();
            let note = format!("its workloads are not published: {why}");
            self.notify(Notice::of_service(service, "FailedToPublish", note));
        }
    }

    fn notify(&self, notice: Notice) {
        if let Err(error) = self.notices.try_send(notice) {
            debug!("an Event is dropped: {error}");
        }
    }

    /// Has the users of a workload know whether it is published.
    fn tell(&mut self, key: Arc<WorkloadKey>, now: Instant) {
        let Some(workload) = self.store.workload(&key).cloned() else {
            self.told.remove(&key);
            self.statuses.end(&key, End::Done, now);
            return;
        };
        let trouble = self.verdicts.of(&workload);
        if key.group == Group::Linkerd {
            match trouble {
                None => drop(self.told.remove(&key)),
                Some(trouble) => {
                    if self.told.insert(Arc::clone(&key), trouble.reason) != Some(trouble.reason) {
                        warn!("{key}: {}", trouble.message);
                        let (reason, note) = (trouble.reason, trouble.message);
                        self.notify(Notice::of_workload(&workload, reason, note));
                    }
                }
            }
            self.statuses.end(&key, End::Done, now);
            return;
        }
        let Some(conditions) = conditions(&workload, trouble.as_ref(), SystemTime::now()) else {
            self.statuses.end(&key, End::Done, now);
            return;
        };
        if let Some(trouble) = &trouble {
            warn!("{key}: {}", trouble.message);
        }
        let (client, ballot) = (self.client.clone(), self.ballot.clone());
        self.writing.spawn(async move {
            let done = write_status(&client, &ballot, &workload, conditions).await;
            Finished::Status(key, done)
        });
    }

    fn status_done(&mut self, key: &Arc<WorkloadKey>, done: Result<(), WriteError>) {
        let now = Instant::now();
        let end = match done {
            Ok(()) => End::Done,
            Err(error) => {
                debug!("{key}: its status is not written: {error}");
                match error {
                    WriteError::Unavailable { retry_after, .. } => {
                        self.rest(retry_after);
                        End::Again
                    }
                    WriteError::NotLeading => {
                        self.rest(None);
                        End::Again
                    }
                    WriteError::Invalid(_) => End::Refused,
                    WriteError::Conflict
                    | WriteError::Forbidden(_)
                    | WriteError::NamespaceTerminating => End::Failed,
                }
            }
        };
        self.statuses.end(key, end, now);
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
            .set_workloads(counts, unreadable, self.verdicts.len());
        self.meters.set_slices(slices, endpoints);
        self.meters
            .set_queue(self.queue.len(), self.queue.dropped());
    }
}

fn is_lost<T>(step: &Step<T>) -> bool {
    matches!(step, Step::Lost(_))
}

async fn until(when: Option<Instant>) {
    if let Some(when) = when {
        sleep_until(when.into()).await;
    }
}
