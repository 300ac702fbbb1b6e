//! Counts of watchers of connections and packets, and of the events for them.

use std::sync::atomic::AtomicI64;

use prometheus_client::metrics::{counter::Counter, family::Family, gauge::Gauge};
use shunt_api::view::{FlowKind, MonitorUse};

/// One label and its value.
type Label = [(&'static str, &'static str); 1];

/// Place where events are lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LostAt {
    /// The programs found no room in the ring: the agent was too slow.
    Ring,
    /// The agent found no room in the queue of one who watches: that one was.
    Watcher,
}

impl LostAt {
    const ALL: [Self; 2] = [Self::Ring, Self::Watcher];

    const fn label(self) -> Label {
        let at = match self {
            Self::Ring => "ring",
            Self::Watcher => "watcher",
        };
        [("at", at)]
    }
}

/// The counters. All of them end with the agent.
#[derive(Debug)]
pub struct FlowMeters {
    /// Number of watchers.
    pub watchers: Gauge<i64, AtomicI64>,
    /// Events that programs reported, by kind.
    pub told: Family<Label, Counter>,
    /// Events that found no room, by place.
    pub lost: Family<Label, Counter>,
}

fn of(kind: FlowKind) -> Label {
    [("kind", kind.name())]
}

impl Default for FlowMeters {
    fn default() -> Self {
        let told = Family::<Label, Counter>::default();
        for kind in FlowKind::ALL {
            drop(told.get_or_create(&of(kind)));
        }
        let lost = Family::<Label, Counter>::default();
        for at in LostAt::ALL {
            drop(lost.get_or_create(&at.label()));
        }
        Self {
            watchers: Gauge::default(),
            told,
            lost,
        }
    }
}

impl FlowMeters {
    /// So many watch now.
    pub(super) fn set_watchers(&self, count: usize) {
        self.watchers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Counts an event that a program reported, or that was found in the table.
    pub(super) fn tell(&self, kind: FlowKind) {
        self.told.get_or_create(&of(kind)).inc();
    }

    /// So many were lost.
    pub(super) fn lose(&self, at: LostAt, count: u64) {
        self.lost.get_or_create(&at.label()).inc_by(count);
    }

    /// As the status shows it.
    pub(super) fn shown(&self) -> MonitorUse {
        let lost = LostAt::ALL.map(|at| self.lost.get_or_create(&at.label()).get());
        MonitorUse {
            watchers: u64::try_from(self.watchers.get()).unwrap_or_default(),
            told: FlowKind::ALL
                .map(|kind| self.told.get_or_create(&of(kind)).get())
                .iter()
                .sum(),
            lost: lost.iter().sum(),
        }
    }
}
