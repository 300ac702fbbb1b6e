//! Meters of the controller, and whether it is alive.

use std::{
    sync::{Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use shunt_runtime::Label;

use crate::routes::book::RouteKind;

/// Maximum time in which the controller may do nothing at all. It looks around every few seconds.
const ALIVE: Duration = Duration::from_mins(1);

/// Outcome of a look at a route's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// It was another one, and is right now.
    Written,
    /// It was right already, or the route has changed meanwhile, or is gone.
    Nothing,
    /// Another writer was there at the same time: it is tried again.
    Conflict,
    /// The server could not: it is tried again.
    Failed,
    /// The server does not take it: it is not tried again before something changes.
    Refused,
    /// Another controller leads.
    NotLeading,
}

impl Wrote {
    const ALL: [Self; 6] = [
        Self::Written,
        Self::Nothing,
        Self::Conflict,
        Self::Failed,
        Self::Refused,
        Self::NotLeading,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Written => "written",
            Self::Nothing => "nothing",
            Self::Conflict => "conflict",
            Self::Failed => "failed",
            Self::Refused => "refused",
            Self::NotLeading => "not_leading",
        }
    }
}

/// Operations on a slice.
const OPERATIONS: [&str; 3] = ["create", "update", "delete"];

/// Outcomes of a look at the slices of a Service.
const SYNCS: [&str; 8] = [
    "nothing",
    "written",
    "conflict",
    "forbidden",
    "invalid",
    "namespace_terminating",
    "unavailable",
    "not_leading",
];

/// Outcomes of a look at a workload.
const PROBES: [&str; 3] = ["success", "failure", "unknown"];

/// Meters of a controller, for display.
#[derive(Debug)]
pub struct ControllerMeters {
    /// 1 while it leads.
    pub leads: Gauge,
    /// Number of routes.
    pub routes: Family<Label, Gauge>,
    /// Outcomes of looks at statuses.
    pub statuses: Family<Label, Counter>,
    /// Meters of workloads and their slices.
    pub workloads: WorkloadMeters,
    is_ready: AtomicBool,
    workloads_are_ready: AtomicBool,
    last_round: Mutex<Instant>,
}

/// Meters of workloads and their slices.
#[derive(Debug, Default)]
pub struct WorkloadMeters {
    /// ExternalWorkloads, by their group.
    pub workloads: Family<Label, Gauge>,
    /// Workloads that cannot be read.
    pub unreadable: Gauge,
    /// Workloads that a Service selects and leaves out.
    pub left_out: Gauge,
    /// Workloads that have an address which they may not have.
    pub refused: Gauge,
    /// Our slices.
    pub slices: Gauge,
    /// Endpoints in our slices.
    pub endpoints: Gauge,
    /// Writes of slices that the server has confirmed, by operation.
    pub writes: Family<Label, Counter>,
    /// Outcomes of looks at the slices of Services.
    pub syncs: Family<Label, Counter>,
    /// Services that wait for one.
    pub waiting: Gauge,
    /// Services that were given up.
    pub given_up: Gauge,
    /// Number of times that one was given up.
    pub drops: Counter,
    /// Workloads that are looked at.
    pub probed: Gauge,
    /// Looks at them, by what became of them.
    pub probes: Family<Label, Counter>,
    /// Looks that had to wait for others to end.
    pub late_probes: Counter,
}

impl Default for ControllerMeters {
    fn default() -> Self {
        let statuses = Family::<Label, Counter>::default();
        for wrote in Wrote::ALL {
            // Zero is shown, too.
            drop(statuses.get_or_create(&[("result", wrote.name())]));
        }
        let workloads = WorkloadMeters::default();
        for (family, label, values) in [
            (&workloads.writes, "operation", &OPERATIONS[..]),
            (&workloads.syncs, "result", &SYNCS),
            (&workloads.probes, "result", &PROBES),
        ] {
            for value in values {
                drop(family.get_or_create(&[(label, *value)]));
            }
        }
        Self {
            leads: Gauge::default(),
            routes: Family::default(),
            statuses,
            workloads,
            is_ready: AtomicBool::new(false),
            workloads_are_ready: AtomicBool::new(false),
            last_round: Mutex::new(Instant::now()),
        }
    }
}

impl ControllerMeters {
    /// A look at a status came to an end.
    pub(super) fn wrote(&self, wrote: Wrote) {
        self.statuses
            .get_or_create(&[("result", wrote.name())])
            .inc();
    }

    /// There are so many routes of this kind.
    pub(super) fn set_routes(&self, kind: RouteKind, count: usize) {
        let label = [("kind", kind.name())];
        self.routes.get_or_create(&label).set(count as i64);
    }

    /// All first lists are there.
    pub(super) fn set_ready(&self) {
        self.is_ready.store(true, Ordering::Relaxed);
    }

    /// Notes that the data for workloads and slices are known, too, or not needed.
    pub(super) fn set_workloads_ready(&self) {
        self.workloads_are_ready.store(true, Ordering::Relaxed);
    }

    /// Sets the numbers of workloads of each group, ours first; of those that cannot be read, are left out, or are
    /// refused.
    pub(super) fn set_workloads(
        &self,
        counts: [usize; 2],
        unreadable: usize,
        left_out: usize,
        refused: usize,
    ) {
        let meters = &self.workloads;
        for (group, count) in ["shunt", "linkerd"].into_iter().zip(counts) {
            let gauge = meters.workloads.get_or_create(&[("group", group)]);
            gauge.set(count as i64);
        }
        meters.unreadable.set(unreadable as i64);
        meters.left_out.set(left_out as i64);
        meters.refused.set(refused as i64);
    }

    /// So many slices with so many endpoints.
    pub(super) fn set_slices(&self, slices: usize, endpoints: usize) {
        self.workloads.slices.set(slices as i64);
        self.workloads.endpoints.set(endpoints as i64);
    }

    /// So many Services wait, and so many were given up.
    pub(super) fn set_queue(&self, waiting: usize, given_up: usize) {
        self.workloads.waiting.set(waiting as i64);
        self.workloads.given_up.set(given_up as i64);
    }

    /// A look at the slices of a Service came to an end.
    pub(super) fn synced(&self, result: &'static str) {
        self.workloads
            .syncs
            .get_or_create(&[("result", result)])
            .inc();
    }

    /// The server has confirmed these writes of slices.
    pub(super) fn wrote_slices(&self, created: u64, updated: u64, deleted: u64) {
        for (operation, count) in OPERATIONS.into_iter().zip([created, updated, deleted]) {
            let counter = self
                .workloads
                .writes
                .get_or_create(&[("operation", operation)]);
            counter.inc_by(count);
        }
    }

    /// A Service was given up.
    pub(super) fn dropped(&self) {
        self.workloads.drops.inc();
    }

    /// So many workloads are looked at.
    pub(super) fn set_probed(&self, count: usize) {
        self.workloads.probed.set(count as i64);
    }

    /// A look at a workload came to an end.
    pub(super) fn probed(&self, result: &'static str) {
        let counter = self.workloads.probes.get_or_create(&[("result", result)]);
        counter.inc();
    }

    /// A look at a workload had to wait for others to end.
    pub(super) fn probed_late(&self) {
        self.workloads.late_probes.inc();
    }

    /// The controller looks around.
    pub(super) fn look_around(&self) {
        *self
            .last_round
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Returns whether it knows all that it has to.
    pub fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed) && self.workloads_are_ready.load(Ordering::Relaxed)
    }

    /// Returns whether it does anything at all.
    pub fn is_alive(&self) -> bool {
        let last = *self
            .last_round
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.elapsed() < ALIVE
    }
}
