//! The notices for users.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Conflict, ServiceId};
use shunt_runtime::{Extent, Listener, Listeners, pair_of};

use crate::{
    engine::{About, Engine},
    notices::notice::{Notice, Subject},
    translate::problem::Problem,
};

impl Engine {
    /// Notifies users of problems of a service, one of which is new.
    pub(super) fn tell_problems(&self, id: &ServiceId, problems: &[Problem]) {
        if let Some(subject) = self.subject(id) {
            for notice in Notice::problems(&subject, problems) {
                self.outbox.put(notice);
            }
        }
    }

    /// Notifies users that a service is left out, or that its last change is.
    pub(super) fn tell_left_out(&self, id: &ServiceId, reason: &str) {
        if let Some(subject) = self.subject(id) {
            self.outbox.put(Notice::left_out(subject, reason));
        }
    }

    /// Takes note of the conflicts after an event, and notifies the users whose service waits since now.
    pub(super) fn look_at_conflicts(&mut self, about: &About, found: Vec<Conflict>) {
        let mut now = BTreeMap::<_, BTreeSet<Conflict>>::new();
        for conflict in found {
            let of_pair = now.entry(pair_of(&conflict)).or_default();
            of_pair.insert(conflict);
        }
        for (pair, conflicts) in &now {
            let known = self.conflicts.get(pair);
            let is_new = |one: &&Conflict| known.is_none_or(|known| !known.contains(*one));
            let mut new = BTreeMap::<_, Vec<&Conflict>>::new();
            for conflict in conflicts.iter().filter(is_new) {
                new.entry(conflict.precedence).or_default().push(conflict);
            }
            // Services of other sources have no Events.
            let (waiting, holder) = pair;
            let Some(subjects) = self.subject(waiting).zip(self.subject(holder)) else {
                continue;
            };
            for (precedence, conflicts) in new {
                let (waiting, holder) = subjects.clone();
                self.outbox
                    .put(Notice::conflict(waiting, holder, precedence, &conflicts));
            }
        }
        let extent = match about {
            About::All { .. } => Extent::All,
            // All that it has to do with is in what was found.
            About::Service { id, .. } => Extent::Service(id),
            About::NodeIps(_) | About::Nodes(_) | About::ServiceCidrs(_) | About::Pods(_) => {
                Extent::Some
            }
        };
        self.conflicts.note(extent, now, |mut known, mut new| {
            known.append(&mut new);
            known
        });
    }

    /// Takes note of health checks that cannot be answered, and notifies users of new ones.
    pub(crate) fn look_at_listeners(&mut self, listeners: &Listeners) {
        let failing = listeners.iter().filter_map(|(listener, state)| {
            let Listener::HealthCheck(id) = listener else {
                return None;
            };
            Some((id.clone(), state.problem.clone()?))
        });
        let failing: BTreeMap<_, _> = failing.collect();
        for (id, problem) in &failing {
            if self.failing_checks.get(id) != Some(problem)
                && let Some(subject) = self.subject(id)
            {
                let node = &self.view.name;
                self.outbox
                    .put(Notice::health_check(subject, node, problem));
            }
        }
        self.failing_checks = failing;
    }

    /// A Service of the cluster.
    fn subject(&self, id: &ServiceId) -> Option<Subject> {
        let service = self.store.known(id)?.service.as_ref()?;
        Some(Subject {
            id: Arc::clone(&service.id),
            uid: service.uid.clone(),
        })
    }
}
