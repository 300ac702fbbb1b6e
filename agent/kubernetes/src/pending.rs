//! Services whose change the renderer has not got yet.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Instant,
};

use shunt_model::ServiceId;
use shunt_runtime::Trigger;

use crate::store::Concerned;

/// Services in the order of their first change; what comes after it joins it.
#[derive(Debug, Default)]
pub(super) struct Pending {
    order: VecDeque<Arc<ServiceId>>,
    changes: HashMap<Arc<ServiceId>, Changed>,
    /// Number of those with changed endpoints.
    endpoints: usize,
}

/// Changes of a service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Changed {
    /// Time of its first change.
    pub(super) since: Instant,
    /// True if its endpoints have changed.
    pub(super) endpoints: bool,
    /// Triggers of the changes of its endpoints.
    pub(super) triggers: Vec<Trigger>,
}

impl Pending {
    /// A service has changed.
    pub(super) fn add(&mut self, concerned: Concerned, now: Instant) {
        let Concerned {
            id,
            by_endpoints,
            triggers,
        } = concerned;
        let order = &mut self.order;
        let changed = self.changes.entry(Arc::clone(&id)).or_insert_with(|| {
            order.push_back(id);
            Changed {
                since: now,
                endpoints: false,
                triggers: Vec::new(),
            }
        });
        if by_endpoints && !changed.endpoints {
            changed.endpoints = true;
            self.endpoints += 1;
        }
        changed.triggers.extend(triggers);
    }

    /// The service that has waited longest of those that `may_go`.
    pub(super) fn next(
        &mut self,
        may_go: impl Fn(&Arc<ServiceId>) -> bool,
    ) -> Option<(Arc<ServiceId>, Changed)> {
        let place = self.order.iter().position(may_go)?;
        let id = self.order.remove(place)?;
        let changed = self.changes.remove(&id)?;
        self.endpoints -= usize::from(changed.endpoints);
        Some((id, changed))
    }

    /// Forgets all of it.
    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }

    /// Returns whether this service waits.
    pub(super) fn has(&self, id: &ServiceId) -> bool {
        self.changes.contains_key(id)
    }

    /// Returns the number of services that wait.
    pub(super) fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns the number of those that wait with changed endpoints.
    pub(super) const fn endpoints(&self) -> usize {
        self.endpoints
    }

    /// Since when the first of them waits.
    pub(super) fn since(&self) -> Option<Instant> {
        Some(self.changes.get(self.order.front()?)?.since)
    }
}
