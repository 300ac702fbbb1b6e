//! The event loop: each request is done and answered, one at a time, and every event acknowledged
//! in the log.
//!
//! An event whose Maglev tables take long to make waits [aside](crate::aside) until they are made
//! [in a thread](crate::table_maker), and with it what has to come after it. It is applied as
//! any other then, at once, with what is so by then.

mod decision;
mod foreign;
mod steer;
mod waiting;

use std::{
    collections::{BTreeSet, VecDeque},
    fmt,
    future::Future,
    io, mem,
    net::IpAddr,
    path::PathBuf,
    pin::pin,
    sync::Arc,
    thread,
    time::{Duration, Instant, SystemTime},
};

use shunt_datapath::{Families, FilterWatch, InterfaceWatch, MadeTable, MaglevRecipe, ReadyTables};
use shunt_model::{EventError, EventKind, RendererEvent};
use tokio::{
    sync::oneshot,
    task::yield_now,
    time::{MissedTickBehavior, interval_at, sleep},
};
use tracing::{debug, error, info, warn};

use crate::{
    acknowledgements::{Acknowledgements, Summary},
    agent::Agent,
    aside::Aside,
    circumstances::Circumstances,
    cluster_state::ClusterMonitor,
    disputes::Disputes,
    figures::{Figures, OverrideCounts},
    held_events::HeldEvents,
    held_removal::HeldRemoval,
    history::History,
    host_complaints::HostPart,
    ip_family::IpFamily,
    limit::Limit,
    lookup::followers::observe,
    meters::Fate,
    origin::Origin,
    outcome::{Acceptance, ApplyError, Outcome},
    pairs::Extent,
    queue::Requests,
    reports::Reports,
    request::{Queued, Request, Submission},
    status,
    steering::Steering,
    table_maker::TableMaker,
    terminate::are_gone,
    waits::{after, until},
};

/// Time without an event after which what was replaced is freed, which takes milliseconds.
const IDLE: Duration = Duration::from_millis(100);

/// Interval after which what does not fit is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(5);

/// Number of services that do not fit and that the log names for one Resync.
const SHOWN: usize = 10;

/// Work that was done for an event before it is applied.
#[derive(Debug, Default)]
struct Preparation {
    ready: ReadyTables,
    /// Since when, if anything was.
    since: Option<Instant>,
    /// True if an operator has confirmed what the event removes, however much it is.
    is_confirmed: bool,
}

/// Addresses of this host with which the frontends do not fit into the tables.
#[derive(Debug)]
struct Unfitting {
    addresses: BTreeSet<IpAddr>,
    error: String,
    again: Instant,
}

/// An agent with the events that it holds and what it has been through.
#[derive(Debug)]
pub struct EventLoop {
    agent: Agent,
    held: HeldEvents,
    history: History,
    /// Families that are translated.
    families: Vec<IpFamily>,
    /// True if a Resync has left memory that is of no more use.
    has_slack: bool,
    /// The source that has the last word, as it names itself; `None` if there is none, or no longer.
    source: Option<String>,
    /// State of the source that follows a cluster.
    followed: Option<ClusterMonitor>,
    /// Requests that wait for tables, and the recipes of these.
    aside: Aside<Request, MaglevRecipe>,
    tables: TableMaker<MaglevRecipe, MadeTable>,
    /// Limit of the lines that are logged.
    acknowledgements: Acknowledgements,
    /// Conflicts that have been logged.
    disputes: Disputes,
    /// Limit of the lines that are logged of what is wrong with services that a cluster's users write.
    warnings: Limit,
    /// Number of such lines that were dropped since the last one.
    unwarned: u64,
    /// Changes by an operator.
    steering: Steering,
    /// Time of the next attempt to take back those that have ended, if the last one failed.
    end_again: Option<Instant>,
    /// The host's addresses, if what follows from them does not fit.
    unfitting: Option<Unfitting>,
    /// Share of all frontends that one event may remove, in percent; `None`: all.
    max_removal: Option<u8>,
    /// The event that would remove more.
    held_removal: Option<HeldRemoval>,
    /// The number of the last event that had to wait for a decision.
    last_held: u64,
    /// Reports in which servers find the outcomes of events.
    reports: Arc<Reports>,
}

impl EventLoop {
    /// Creates a loop with `agent`, which starts now, and is pinned at `pin_dir`. `source` has the last word until it
    /// ends. The status shows `followed`. The overrides of `steering` hold from the begin. One event may remove the
    /// share `max_removal` of all frontends, in percent, or all of them if it is `None`. The outcomes of events are
    /// shown in `reports`.
    pub fn new(
        mut agent: Agent,
        pin_dir: Option<PathBuf>,
        source: Option<String>,
        followed: Option<ClusterMonitor>,
        steering: Steering,
        max_removal: Option<u8>,
        reports: Arc<Reports>,
    ) -> Self {
        agent.begin_with(steering.overrides());
        let Families { ipv4, ipv6 } = agent.datapath().families();
        let families = [(IpFamily::V4, ipv4), (IpFamily::V6, ipv6)].into_iter();
        Self {
            families: families
                .filter_map(|(family, is_translated)| is_translated.then_some(family))
                .collect(),
            agent,
            held: HeldEvents::default(),
            history: History::new(pin_dir),
            has_slack: false,
            source,
            followed,
            aside: Aside::default(),
            tables: TableMaker::new(MaglevRecipe::make),
            acknowledgements: Acknowledgements::new(Instant::now()),
            disputes: Disputes::default(),
            warnings: Limit::new(Instant::now()),
            unwarned: 0,
            steering,
            end_again: None,
            unfitting: None,
            max_removal,
            held_removal: None,
            last_held: 0,
            reports,
        }
    }

    /// Handles `requests`, and keeps the programs on the interfaces as `links` come
    /// and go and as others remove `filters`, until `stop` is done. At this `scan_interval`, looks for what else others
    /// have detached or unpinned. Returns the agent.
    pub async fn run(
        mut self,
        mut requests: Requests,
        mut links: InterfaceWatch,
        mut filters: FilterWatch,
        scan_interval: Duration,
        stop: impl Future<Output = ()>,
    ) -> Agent {
        let mut stop = pin!(stop);
        let mut scans = interval_at((Instant::now() + scan_interval).into(), scan_interval);
        scans.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let reports = Arc::clone(&self.reports);
        self.agent.load_aside();
        reports.set_failed_hooks(self.agent.failed_hooks());
        loop {
            let next_end = self.next_end();
            tokio::select! {
                Some(request) = requests.next(), if self.aside.has_room() => {
                    reports.while_busy(|| self.accept(request));
                }
                () = self.tables.done(), if !self.aside.is_empty() => {
                    reports.while_busy(|| self.resume());
                }
                () = until(self.unfitting.as_ref().map(|unfitting| unfitting.again)) => {
                    reports.while_busy(|| self.try_addresses());
                }
                () = self.agent.verified() => reports.while_busy(|| self.agent.use_verified()),
                () = links.changed() => reports.while_busy(|| self.agent.reconcile_interfaces()),
                removed = filters.removed() => {
                    reports.while_busy(|| self.agent.restore_filters(&removed));
                }
                // In pieces, in turn with whatever else is to be done.
                () = yield_now(), if self.agent.is_attaching() => {
                    reports.while_busy(|| self.agent.attach_more());
                }
                () = until(self.acknowledgements.due()) => self.summarise(),
                () = after(next_end) => {
                    reports.while_busy(|| self.end_overrides());
                }
                _ = scans.tick() => reports.while_busy(|| self.agent.check_kept()),
                () = sleep(IDLE), if self.has_to_tidy() => reports.while_busy(|| self.tidy()),
                () = &mut stop => {
                    // Watchers are left alone; the next agent finds programs that report nothing.
                    self.agent.datapath_mut().stop_flows();
                    // What is not pinned ends with the agent.
                    self.agent.check_kept();
                    return self.agent;
                }
            }
            reports.set_failed_hooks(self.agent.failed_hooks());
            reports.set_host(HostPart::Addresses, self.address_complaints());
            let screened = self.agent.datapath().screened();
            reports.set_host(HostPart::Devices, screened.into_iter().collect());
            let kept = self.agent.datapath().kept_complaints();
            reports.set_host(HostPart::Kept, kept);
            reports.set_undecided(self.held_removal.is_some());
        }
    }

    /// Returns whether [`Self::tidy`] has anything to do.
    fn has_to_tidy(&self) -> bool {
        self.has_slack || self.agent.datapath().has_retired()
    }

    /// Frees what was replaced, in the tables and here. Takes milliseconds, so it is for when
    /// nothing else is to be done.
    fn tidy(&mut self) {
        if let Err(error) = self.agent.datapath_mut().reclaim() {
            warn!(%error, "replaced table space stays in use");
        }
        if mem::take(&mut self.has_slack) {
            shunt_datapath::release_memory();
        }
    }

    /// Does what is asked, and answers.
    fn handle(&mut self, request: Request, preparation: &Preparation) {
        match request {
            Request::Event(Submission {
                origin,
                event,
                circumstances,
                queued,
                turn: _,
                is_foreign: _,
                answer,
            }) => {
                let reports = queued.reports();
                let accepted = self.event(reports, origin, event, circumstances, preparation);
                drop(queued);
                let is_held = matches!(accepted, Err(ApplyError::Removal(_)));
                if let Some(held) = self.held_removal.as_mut().filter(|_| is_held) {
                    // The sender that waits for it waits for the decision.
                    held.answer = answer;
                } else if let Some(answer) = answer {
                    reply(answer, accepted);
                }
            }
            Request::Ended(end) => self.source_ended(end),
            Request::HostAddresses(addresses) => self.host_addresses(addresses),
            Request::Slack => self.has_slack = true,
            Request::Read(part, ranges, answer) => {
                reply(answer, self.agent.read_back(part, &ranges));
            }
            Request::Wanted(answer) => reply(answer, self.agent.wanted()),
            Request::Lookup(query, answer) => {
                reply(answer, observe(&query, self.agent.renderer()));
            }
            Request::Follow(query, answer) => reply(answer, self.agent.follow(&query)),
            Request::AreGone(connections, answer) => {
                reply(answer, are_gone(self.agent.renderer(), &connections));
            }
            Request::Figures(answer) => {
                let held = self.held.count();
                let removal = self.held_removal.as_ref();
                let removal = removal.map(|removal| removal.since.elapsed());
                let overrides = self.steering.iter().map(|steered| &steered.change);
                let overrides = OverrideCounts::of(overrides);
                let figures = Figures::of(&self.agent, held, removal, overrides);
                reply(answer, figures);
            }
            Request::LoadFlows(answer) => {
                let loader = self.agent.datapath().flow_loader();
                // From here, as threads of servers give way to everything else. If there is none, there is no answer.
                let loading = thread::Builder::new().name("verifier".into());
                let loading = loading.spawn(move || reply(answer, loader.load()));
                if let Err(error) = loading {
                    warn!(%error, "no thread loads the programs that tell of connections");
                }
            }
            Request::TellFlows(programs, answer) => {
                self.agent.datapath_mut().tell_flows(programs);
                reply(answer, ());
            }
            Request::StopFlows(answer) => {
                self.agent.datapath_mut().stop_flows();
                reply(answer, ());
            }
            Request::Steer(steer, answer) => reply(answer, self.steer(steer)),
            Request::Decide(number, decision, answer) => {
                reply(answer, self.decide(number, decision));
            }
            Request::Status(answer) => {
                let status = status::assemble(
                    &self.agent,
                    &self.history,
                    self.held.count(),
                    self.followed.as_ref(),
                    &self.steering,
                    self.held_removal.as_ref(),
                );
                reply(answer, status);
            }
        }
    }

    /// Does what follows from the host's addresses. What does not fit is tried again until it does, or until the
    /// addresses are others.
    fn host_addresses(&mut self, addresses: BTreeSet<IpAddr>) {
        let before = self.unfitting.take();
        match self.agent.set_host_addresses(addresses.clone()) {
            Ok(Some(outcome)) => info!("addresses of this host changed: {outcome}"),
            Ok(None) => {}
            Err(error) => {
                let error = error.to_string();
                let is_new = before.is_none_or(|before| before.addresses != addresses);
                if is_new {
                    error!(
                        "addresses of this host changed: {error}: NodePorts stay where they are until there is room"
                    );
                }
                self.unfitting = Some(Unfitting {
                    addresses,
                    error,
                    again: Instant::now() + TRY_AGAIN,
                });
            }
        }
    }

    /// Tries again what did not fit.
    fn try_addresses(&mut self) {
        if let Some(Unfitting { addresses, .. }) = &self.unfitting {
            self.host_addresses(addresses.clone());
        }
    }

    /// Returns what is wrong with this host's addresses, a sentence each.
    fn address_complaints(&self) -> Vec<String> {
        let mut complaints = self.agent.missing_addresses();
        complaints.extend(self.unfitting.as_ref().map(|Unfitting { error, .. }| {
            format!(
                "this host's addresses have changed, and NodePorts stay where they were: {error}"
            )
        }));
        complaints
    }

    fn source_ended(&mut self, end: Result<(), (Origin, io::Error)>) {
        if let Err((origin, error)) = end {
            self.refuse(&format_args!("{origin}: cannot read on: {error}"));
        }
        self.source = None;
        info!("end of the events: translating until a signal comes");
    }

    /// Applies an event and those that waited for it.
    fn event(
        &mut self,
        reports: &Arc<Reports>,
        origin: Origin,
        event: Result<RendererEvent, EventError>,
        circumstances: Circumstances,
        preparation: &Preparation,
    ) -> Result<Acceptance, ApplyError> {
        let event = event.map_err(|error| {
            reports.meters().count(None, Fate::Refused);
            self.refuse(&format_args!("{origin}: {error}"));
            error
        })?;
        let synced = self.agent.renderer().is_synced();
        let kind = event.kind();
        let subject = event.subject();
        let admitted = self.held.admit(synced, origin, event, circumstances);
        let Some((event, circumstances)) = admitted else {
            reports.meters().count(Some(kind), Fate::Held);
            info!("{origin}: {subject}: held until the first Resync");
            return Ok(Acceptance::Held);
        };
        let accepted = self.apply(reports, origin, event, circumstances, preparation);
        if self.agent.renderer().is_synced() {
            for (origin, event, circumstances) in self.held.release() {
                // Its sender got the answer that it is held, and the log shows what becomes of it.
                self.accept(Request::Event(Submission {
                    origin,
                    event: Ok(event),
                    circumstances,
                    queued: Queued::new(reports),
                    turn: None,
                    is_foreign: false,
                    answer: None,
                }));
            }
        }
        accepted
    }

    /// Applies one event and logs what it changed, or why it did not.
    fn apply(
        &mut self,
        reports: &Arc<Reports>,
        origin: Origin,
        event: RendererEvent,
        circumstances: Circumstances,
        preparation: &Preparation,
    ) -> Result<Acceptance, ApplyError> {
        let Preparation {
            ready,
            since,
            is_confirmed,
        } = preparation;
        let subject = event.subject();
        self.has_slack |= matches!(event, RendererEvent::Resync(_)) || since.is_some();
        let kind = event.kind();
        let Circumstances {
            triggers,
            health_checks,
            routine,
            undecided,
        } = circumstances;
        let event = self.agent.with_undecided(event, undecided);
        let health_checks = self.agent.without_drained(health_checks, &event);
        let announced = reports.announce(&health_checks);
        let max_removal = self.max_removal.filter(|_| !is_confirmed);
        let kept = max_removal.is_some().then(|| event.clone());
        match self
            .agent
            .apply_with(event, &health_checks, ready, max_removal)
        {
            Ok(mut outcome) => {
                if let Some(since) = since {
                    outcome.took = since.elapsed();
                }
                let now = SystemTime::now();
                reports.apply(health_checks);
                reports.updated(now);
                if kind == EventKind::Resync {
                    reports.synced();
                }
                let meters = reports.meters();
                meters.applied(kind, &self.families, outcome.took, outcome.writes);
                meters.programmed(&triggers, now);
                self.history.applied += 1;
                let is_logged = !routine
                    && (outcome.has_changed() || kind == EventKind::Resync)
                    && self.may_log(&outcome);
                if is_logged {
                    info!("{origin}: {subject}: {outcome}");
                } else {
                    debug!("{origin}: {subject}: {outcome}");
                }
                let extent = match (subject.service(), kind) {
                    (Some(id), _) => Extent::Service(id),
                    (None, EventKind::Resync) => Extent::All,
                    (None, _) => Extent::Some,
                };
                let disputes = self.disputes.note(extent, &outcome.conflicts);
                for dispute in disputes.lines() {
                    if self.may_warn(routine) {
                        warn!("{origin}: conflict: {dispute}");
                    }
                }
                warn_of_rest(origin, &outcome);
                Ok(Acceptance::Applied(outcome))
            }
            Err(ApplyError::Removal(removal)) => {
                reports.take_back(announced);
                let error = ApplyError::Removal(removal);
                let number = self.next_held();
                warn!(
                    "{origin}: {subject}: {error}: `shunt confirm {number}` or `shunt discard {number}`"
                );
                debug_assert!(self.held_removal.is_none(), "later events wait behind it");
                self.held_removal = kept.map(|event| HeldRemoval {
                    number,
                    origin,
                    event,
                    circumstances: Circumstances {
                        triggers,
                        health_checks,
                        routine,
                        undecided: Vec::new(),
                    },
                    answer: None,
                    removal,
                    since: Instant::now(),
                    behind: VecDeque::new(),
                    reports: Arc::clone(reports),
                });
                Err(error)
            }
            Err(error) => {
                reports.take_back(announced);
                reports.meters().count(Some(kind), Fate::Refused);
                let text = format!("{origin}: {subject}: {error}");
                if self.may_warn(routine) {
                    self.refuse(&text);
                } else {
                    self.history.refuse(&text);
                }
                Err(error)
            }
        }
    }

    /// Returns whether another line may be logged of what is wrong with a service. All may of an event that is none of
    /// many, or `routine`.
    fn may_warn(&mut self, routine: bool) -> bool {
        if !routine {
            return true;
        }
        let may_warn = self.warnings.take(Instant::now());
        if !may_warn {
            self.unwarned += 1;
        } else if self.unwarned > 0 {
            warn!(
                "{} more lines of services are left out: see `shunt status`",
                mem::take(&mut self.unwarned)
            );
        }
        may_warn
    }

    /// Returns whether another line may be logged; if not, the summary has its content.
    fn may_log(&mut self, outcome: &Outcome) -> bool {
        let may_log = self.acknowledgements.has_room(Instant::now());
        if !may_log {
            let Summary {
                events,
                added,
                changed,
                removed,
                writes,
            } = self.acknowledgements.leave_out();
            *events += 1;
            *added += outcome.added as u64;
            *changed += outcome.changed as u64;
            *removed += outcome.removed as u64;
            *writes += outcome.writes;
        }
        may_log
    }

    /// Logs in one line what was not logged in many.
    fn summarise(&mut self) {
        if let Some(summary) = self.acknowledgements.take(Instant::now()) {
            info!("{summary}");
        }
    }

    fn refuse(&mut self, error: &dyn fmt::Display) {
        error!("{error}");
        self.history.refuse(error);
    }
}

/// Answers; it is no error if the receiver is gone.
fn reply<T>(answer: oneshot::Sender<T>, value: T) {
    drop(answer.send(value));
}

/// Warns of what of an event has no effect.
fn warn_of_rest(origin: Origin, outcome: &Outcome) {
    for address in &outcome.left_out {
        warn!("{origin}: node_ips: {address} leads to no single node: it is left out");
    }
    for refusal in outcome.refusals().take(SHOWN) {
        warn!("{origin}: {refusal}");
    }
    if outcome.refused.len() > SHOWN {
        let more = outcome.refused.len() - SHOWN;
        warn!("{origin}: {more} more services do not fit and are left out");
    }
    let untranslated = outcome.untranslated;
    if untranslated > 0 {
        warn!(
            "{origin}: {untranslated} frontends are not translated: their address family is not \
             among --ip-families"
        );
    }
}
