//! Events that the renderer has refused, and since when.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Instant,
};

use shunt_model::ServiceId;

use crate::store::Concerned;

/// Events that are about more than one service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum General {
    /// Everything.
    All,
    /// The nodes' addresses.
    NodeIps,
    /// The nodes by name.
    Nodes,
    /// The ranges that cluster IPs are taken from.
    ServiceCidrs,
    /// Pods.
    Pods,
}

/// Subject of an event.
#[derive(Debug, Clone, Copy)]
pub(super) enum Topic<'a> {
    General(General),
    Service(&'a Arc<ServiceId>),
}

/// Events that failed and have not succeeded since. In the agent's reports each waits from its first failure
/// on, however often it is tried.
#[derive(Debug, Default)]
pub(super) struct Failures {
    services: HashMap<Arc<ServiceId>, Instant>,
    general: BTreeMap<General, Failure>,
}

#[derive(Debug)]
struct Failure {
    since: Instant,
    /// True if it waits for the next try, so that services go on meanwhile.
    is_put_off: bool,
}

impl Failures {
    /// An event failed. Returns true if the one before it did not.
    pub(super) fn add(&mut self, topic: Topic<'_>, now: Instant) -> bool {
        match topic {
            Topic::General(general) => {
                let failure = Failure {
                    since: now,
                    is_put_off: true,
                };
                let known = self.general.insert(general, failure);
                if let (Some(known), Some(failure)) = (&known, self.general.get_mut(&general)) {
                    failure.since = known.since;
                }
                known.is_none()
            }
            Topic::Service(id) => {
                let count = self.services.len();
                self.services.entry(Arc::clone(id)).or_insert(now);
                self.services.len() > count
            }
        }
    }

    /// An event took effect, and with everything all of it.
    pub(super) fn remove(&mut self, topic: Topic<'_>) {
        match topic {
            Topic::General(General::All) => *self = Self::default(),
            Topic::General(general) => {
                self.general.remove(&general);
            }
            Topic::Service(id) => self.forget(id),
        }
    }

    /// Forgets a service, on which no event follows.
    pub(super) fn forget(&mut self, id: &ServiceId) {
        self.services.remove(id);
    }

    /// Returns whether this is to be sent now, if what is known of it `differs` from what was sent. An event
    /// that failed is put off until the next try: a service that is deleted meanwhile may make room for it.
    pub(super) fn is_due(&mut self, general: General, differs: bool) -> bool {
        if !differs {
            self.general.remove(&general);
        }
        let failure = self.general.get(&general);
        differs && failure.is_none_or(|failure| !failure.is_put_off)
    }

    /// Begins the next try, and returns the services that are to be sent again.
    pub(super) fn retry(&mut self) -> Vec<Concerned> {
        for failure in self.general.values_mut() {
            failure.is_put_off = false;
        }
        let services = self.services.keys();
        services.map(|id| Concerned::by(Arc::clone(id))).collect()
    }

    /// The services of which an event failed.
    pub(super) fn services(&self) -> impl Iterator<Item = &ServiceId> {
        self.services.keys().map(|id| &**id)
    }

    /// Returns the time of the oldest first failure.
    pub(super) fn since(&self) -> Option<Instant> {
        let general = self.general.values().map(|failure| failure.since);
        self.services.values().copied().chain(general).min()
    }
}
