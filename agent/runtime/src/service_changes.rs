//! Changes of each service, for display. A bounded memory: of one service that
//! changes all the time no more is kept than of others.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::SystemTime,
};

use shunt_model::ServiceId;

/// Number of changes that are kept of all services together.
const ALL: usize = 4096;

/// Number of changes that are kept of one service.
const OF_ONE: usize = 64;

/// Number of things that one line names; of the others it has the number.
const NAMED: usize = 8;

/// In what way a service port has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ChangeKind {
    /// Frontends that it did not have.
    FrontendsAdded,
    /// Frontends that it has no longer.
    FrontendsRemoved,
    /// Backends that it did not have.
    BackendsAdded,
    /// Backends that it has no longer.
    BackendsRemoved,
    /// Backends that take no new connection any more.
    Drained,
    /// Backends that take new connections again.
    Undrained,
    /// Backends whose weight is another one, or whose share of a split.
    Weights,
    /// Backends that it may use, the way one is selected, and the time that a client stays with it.
    Policy,
}

impl ChangeKind {
    /// As it is written.
    pub const fn name(self) -> &'static str {
        match self {
            Self::FrontendsAdded => "frontends added",
            Self::FrontendsRemoved => "frontends removed",
            Self::BackendsAdded => "backends added",
            Self::BackendsRemoved => "backends removed",
            Self::Drained => "drained",
            Self::Undrained => "undrained",
            Self::Weights => "weights",
            Self::Policy => "policy",
        }
    }
}

/// Things of one kind that one event has changed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changed {
    /// Some of them, as text.
    pub named: Vec<String>,
    /// Number of the others.
    pub more: usize,
}

/// Changes of a service port by one event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceChange {
    /// Time at which it took effect.
    pub at: SystemTime,
    /// The service.
    pub service: Arc<ServiceId>,
    /// The name of its port.
    pub port: Arc<str>,
    /// Changes by kind.
    pub changed: BTreeMap<ChangeKind, Changed>,
}

impl Changed {
    /// Of these, each of which is named once.
    pub(super) fn of(all: impl IntoIterator<Item = String>) -> Self {
        let mut all = all.into_iter();
        let named = all.by_ref().take(NAMED).collect();
        Self {
            named,
            more: all.count(),
        }
    }
}

/// Changes of each service since the first Resync.
#[derive(Debug, Default)]
pub struct ServiceChanges {
    revision: AtomicU64,
    kept: Mutex<Kept>,
}

#[derive(Debug, Default)]
struct Kept {
    /// The oldest stands first.
    changes: VecDeque<Arc<ServiceChange>>,
    of_each: HashMap<Arc<ServiceId>, usize>,
}

impl ServiceChanges {
    /// Counts the events that may have changed what is to be in the kernel. A reader that has seen the
    /// frontends at this number has seen all of them.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// An event has taken effect, and has changed this.
    pub(super) fn note(&self, changes: Vec<ServiceChange>) {
        let mut kept = self.kept();
        for change in changes {
            kept.push(Arc::new(change));
        }
        drop(kept);
        self.revision.fetch_add(1, Ordering::Release);
    }

    /// The last changes of a service, the newest first.
    pub fn of(&self, service: &ServiceId) -> Vec<Arc<ServiceChange>> {
        let kept = self.kept();
        let newest_first = kept.changes.iter().rev();
        let of_it = newest_first.filter(|change| *change.service == *service);
        of_it.cloned().collect()
    }

    /// The last changes of all services, so many at most, the newest first.
    pub fn latest(&self, count: usize) -> Vec<Arc<ServiceChange>> {
        self.kept()
            .changes
            .iter()
            .rev()
            .take(count)
            .cloned()
            .collect()
    }

    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Kept {
    fn push(&mut self, change: Arc<ServiceChange>) {
        let count = self.of_each.get(&change.service).copied();
        if count.is_some_and(|count| count >= OF_ONE) {
            let is_of_it = |older: &Arc<ServiceChange>| older.service == change.service;
            if let Some(oldest) = self.changes.iter().position(is_of_it) {
                self.remove(oldest);
            }
        } else if self.changes.len() >= ALL {
            self.remove(0);
        }
        *self.of_each.entry(Arc::clone(&change.service)).or_default() += 1;
        self.changes.push_back(change);
    }

    fn remove(&mut self, index: usize) {
        let Some(removed) = self.changes.remove(index) else {
            return;
        };
        if let Some(count) = self.of_each.get_mut(&removed.service) {
            *count -= 1;
            if *count == 0 {
                self.of_each.remove(&removed.service);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str, number: usize) -> ServiceChange {
        ServiceChange {
            at: SystemTime::UNIX_EPOCH,
            service: Arc::new(ServiceId::new("default", name)),
            port: "http".into(),
            changed: BTreeMap::from([(
                ChangeKind::BackendsAdded,
                Changed::of([number.to_string()]),
            )]),
        }
    }

    fn numbers(changes: &[Arc<ServiceChange>]) -> Vec<&str> {
        let lines = changes.iter().flat_map(|change| change.changed.values());
        lines.map(|changed| changed.named[0].as_str()).collect()
    }

    #[test]
    fn one_service_that_changes_all_the_time_leaves_the_others_their_history() {
        let changes = ServiceChanges::default();
        changes.note(vec![change("quiet", 7)]);
        for number in 0..10 * ALL {
            changes.note(vec![change("busy", number)]);
        }
        assert_eq!(
            numbers(&changes.of(&ServiceId::new("default", "quiet"))),
            ["7"]
        );
        let busy = changes.of(&ServiceId::new("default", "busy"));
        assert_eq!(busy.len(), OF_ONE);
        assert_eq!(numbers(&busy)[0], (10 * ALL - 1).to_string());
        assert_eq!(changes.revision(), 10 * ALL as u64 + 1);
    }

    #[test]
    fn of_all_services_together_no_more_is_kept_than_there_is_room_for() {
        let changes = ServiceChanges::default();
        for number in 0..3 * ALL {
            changes.note(vec![change(&format!("web-{number}"), number)]);
        }
        assert_eq!(changes.latest(usize::MAX).len(), ALL);
        assert_eq!(changes.kept().of_each.len(), ALL);
        assert_eq!(numbers(&changes.latest(2)).len(), 2);
        assert!(changes.of(&ServiceId::new("default", "web-0")).is_empty());
    }

    #[test]
    fn a_line_names_some_and_counts_the_others() {
        let changed = Changed::of((0..20).map(|number| number.to_string()));
        assert_eq!((changed.named.len(), changed.more), (NAMED, 20 - NAMED));
    }
}
