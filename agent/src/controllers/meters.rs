//! What is measured of the controller, and whether it is alive.

use std::{
    sync::{Mutex, PoisonError, atomic::AtomicBool, atomic::Ordering},
    time::{Duration, Instant},
};

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};

use crate::{runtime::meters::Label, source::kubernetes::routes::book::RouteKind};

/// How long the controller may do nothing at all. It looks around every few seconds.
const ALIVE: Duration = Duration::from_mins(1);

/// What became of a look at a route's status.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wrote {
    /// It was another one, and is right now.
    Written,
    /// It was right already, or the route has changed meanwhile, or is gone.
    Nothing,
    /// Somebody else wrote at the same time: it is tried again.
    Conflict,
    /// The server could not: it is tried again.
    Failed,
    /// The server does not take it: it is not tried again before something changes.
    Refused,
    /// Somebody else leads.
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

/// What is measured of a controller, for whoever looks at it.
#[derive(Debug)]
pub(crate) struct ControllerMeters {
    /// 1 while it leads.
    pub(crate) leads: Gauge,
    /// How many routes there are.
    pub(crate) routes: Family<Label, Gauge>,
    /// What became of each look at a status.
    pub(crate) statuses: Family<Label, Counter>,
    is_ready: AtomicBool,
    last_round: Mutex<Instant>,
}

impl Default for ControllerMeters {
    fn default() -> Self {
        let statuses = Family::<Label, Counter>::default();
        for wrote in Wrote::ALL {
            // Zero is said, too.
            drop(statuses.get_or_create(&[("result", wrote.name())]));
        }
        Self {
            leads: Gauge::default(),
            routes: Family::default(),
            statuses,
            is_ready: AtomicBool::new(false),
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

    /// The controller looks around.
    pub(super) fn look_around(&self) {
        *self
            .last_round
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Whether it knows all that it has to.
    pub(crate) fn is_ready(&self) -> bool {
        self.is_ready.load(Ordering::Relaxed)
    }

    /// Whether it does anything at all.
    pub(crate) fn is_alive(&self) -> bool {
        let last = *self
            .last_round
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.elapsed() < ALIVE
    }
}
