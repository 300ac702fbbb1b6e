//! Looks at the agent once a second, and remembers what it sees. What costs more than a look at a few
//! counters it does only while a page is open.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use shunt_runtime::{Figures, Inspector, ServiceChanges, ServiceFigures};
use tokio::time::{MissedTickBehavior, interval, timeout};
use tracing::debug;

use crate::ui::{
    catalog::Catalog,
    chosen::{ChosenBackends, ChosenOf},
    rates::{ServiceRates, rate},
};

/// Interval between looks.
const TICK: Duration = Duration::from_secs(1);

/// After so many ticks it asks the event loop for figures again.
const FIGURES: u64 = 3;

/// Number of points of the charts that are remembered: ten minutes.
const POINTS: usize = 600;

/// Time after a request in which a page counts as open.
const WATCHED: Duration = Duration::from_secs(10);

/// Maximum age of what is shown.
const FRESH: Duration = Duration::from_millis(1500);

/// Time to wait for the event loop, which may be in the middle of a large Resync.
const PATIENCE: Duration = Duration::from_secs(3);

/// Events in the kernel, in one second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    /// Its number.
    pub(super) number: u64,
    /// Time of the point, in milliseconds since 1970.
    pub(super) at: u64,
    /// New connections.
    pub(super) connections: f64,
    /// Packets and system calls that were translated.
    pub(super) translated: f64,
    /// Dropped.
    pub(super) dropped: f64,
    /// Rejected.
    pub(super) rejected: f64,
    /// Entries of connections, then.
    pub(super) conntrack: u64,
}

/// A counter of the programs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Counted {
    /// Total count so far.
    pub(super) total: u64,
    /// Growth in the last second.
    pub(super) rate: f64,
}

/// Results of the looks.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) counters: BTreeMap<&'static str, Counted>,
    counted: Option<Instant>,
    pub(super) points: VecDeque<Point>,
    next: u64,
    pub(super) figures: Option<Figures>,
    pub(super) catalog: Catalog,
    /// State of the events that the catalog shows.
    listed: Option<u64>,
    pub(super) rates: ServiceRates,
    /// Counts of each service port, sorted by name.
    pub(super) services: Vec<ServiceFigures>,
    /// Time of the last request.
    asked: Option<Instant>,
}

/// Looks, and remembers.
#[derive(Debug)]
pub(super) struct Sampler {
    inspector: Inspector,
    changes: Arc<ServiceChanges>,
    seen: Mutex<Seen>,
    chosen: ChosenBackends,
    /// Looks are taken one after the other.
    turn: tokio::sync::Mutex<()>,
}

impl Sampler {
    pub(super) fn new(inspector: Inspector, changes: Arc<ServiceChanges>) -> Self {
        Self {
            inspector,
            changes,
            seen: Mutex::default(),
            chosen: ChosenBackends::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    pub(super) const fn inspector(&self) -> &Inspector {
        &self.inspector
    }

    pub(super) const fn changes(&self) -> &Arc<ServiceChanges> {
        &self.changes
    }

    /// Returns the results of the last look.
    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of connections that were opened in the last second.
    pub(super) fn opened(&self) -> f64 {
        let seen = self.seen();
        seen.points.back().map_or(0.0, |point| point.connections)
    }

    /// Returns the number of connections that each backend is chosen for.
    pub(super) async fn chosen(&self) -> Arc<ChosenOf> {
        self.chosen.now(&self.inspector).await
    }

    /// Looks for ever.
    pub(super) async fn run(&self) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut number = 0;
        loop {
            ticks.tick().await;
            self.look_at_counters();
            let is_watched = self.is_watched();
            if is_watched && number % FIGURES == 0 {
                self.ask_for_figures().await;
            }
            if is_watched {
                self.look_at_services().await;
            } else {
                self.seen().rates.pause();
            }
            number += 1;
        }
    }

    /// Handles a request: what is seen is to be as it is now.
    pub(super) async fn freshen(&self) {
        let now = Instant::now();
        let (is_fresh, has_figures) = {
            let mut seen = self.seen();
            seen.asked = Some(now);
            let age = seen.rates.age(now);
            (
                age.is_some_and(|age| age < FRESH) && seen.listed == Some(self.changes.revision()),
                seen.figures.is_some(),
            )
        };
        if !has_figures {
            self.ask_for_figures().await;
        }
        if !is_fresh {
            self.look_at_services().await;
        }
    }

    fn is_watched(&self) -> bool {
        let asked = self.seen().asked;
        asked.is_some_and(|asked| asked.elapsed() < WATCHED)
    }

    fn look_at_counters(&self) {
        match self.inspector.counters() {
            Ok(counters) => self.seen().count(&counters, Instant::now(), milliseconds()),
            Err(error) => debug!(%error, "the counters are not seen"),
        }
    }

    async fn ask_for_figures(&self) {
        if let Ok(Ok(figures)) = timeout(PATIENCE, self.inspector.figures()).await {
            self.seen().figures = Some(figures);
        }
    }

    async fn look_at_services(&self) {
        let _turn = self.turn.lock().await;
        // First the number: what changes meanwhile is looked at again.
        let revision = self.changes.revision();
        let listed = self.seen().listed;
        if listed != Some(revision)
            && let Ok(Ok(wanted)) = timeout(PATIENCE, self.inspector.wanted()).await
        {
            let mut seen = self.seen();
            seen.catalog.update(wanted);
            seen.listed = Some(revision);
        }
        let now = Instant::now();
        let age = self.seen().rates.age(now);
        if age.is_some_and(|age| age < TICK / 2) {
            // Another task has just looked.
            return;
        }
        match self.inspector.services() {
            Ok(services) => {
                let mut seen = self.seen();
                seen.rates.note(&services, milliseconds(), now);
                seen.services = services;
            }
            Err(error) => debug!(%error, "the services' counters are not seen"),
        }
    }
}

impl Seen {
    fn count(&mut self, counters: &[(&'static str, u64)], now: Instant, at: u64) {
        let passed = self.counted.map(|counted| now.duration_since(counted));
        for (name, total) in counters {
            let counted = self.counters.entry(name).or_default();
            counted.rate = passed.map_or(0.0, |passed| rate(counted.total, *total, passed));
            counted.total = *total;
        }
        self.counted = Some(now);
        if passed.is_none() {
            return;
        }
        let all = |is_meant: &dyn Fn(&str) -> bool| {
            let meant = self.counters.iter().filter(|(name, _)| is_meant(name));
            let sum: f64 = meant.map(|(_, counted)| counted.rate).sum();
            (10.0 * sum).round() / 10.0
        };
        self.next += 1;
        let point = Point {
            number: self.next,
            at,
            connections: all(&|name| {
                matches!(name, "connection" | "socket_connect" | "socket_datagram")
            }),
            translated: all(&|name| {
                matches!(
                    name,
                    "request" | "reply" | "fragment" | "socket_connect" | "socket_datagram"
                )
            }),
            dropped: all(&|name| name.starts_with("drop_") || name == "socket_drop"),
            rejected: all(&|name| name.starts_with("reject_") || name == "socket_reject"),
            conntrack: self.conntrack(),
        };
        if self.points.len() == POINTS {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }

    /// Returns the number of entries of connections.
    fn conntrack(&self) -> u64 {
        let tables = self.figures.iter().flat_map(|figures| &figures.tables);
        tables
            .filter(|table| table.name.starts_with("conntrack"))
            .map(|table| u64::from(table.used))
            .sum()
    }
}

/// Since 1970.
pub(super) fn milliseconds() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_point_sums_up_what_is_of_a_kind() {
        let mut seen = Seen::default();
        let start = Instant::now();
        let names = [
            "connection",
            "socket_connect",
            "drop_no_route",
            "reject_expired",
        ];
        let counters = |values: [u64; 4]| -> Vec<_> { names.into_iter().zip(values).collect() };
        seen.count(&counters([5, 5, 5, 5]), start, 0);
        assert!(seen.points.is_empty(), "there is no rate yet");
        seen.count(&counters([15, 25, 6, 7]), start + TICK, 1000);
        let point = seen.points[0];
        assert_eq!(
            (
                point.connections,
                point.translated,
                point.dropped,
                point.rejected
            ),
            (30.0, 20.0, 1.0, 2.0)
        );
        let counted = seen.counters["connection"];
        assert_eq!((counted.total, counted.rate), (15, 10.0));
    }
}
