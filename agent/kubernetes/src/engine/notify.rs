//! The notices for users.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use shunt_model::{Conflict, ServiceId};
use shunt_runtime::{Listener, Listeners, pair_of};

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
        let mut new = BTreeMap::<_, Vec<&Conflict>>::new();
        let found = BTreeSet::from_iter(found);
        for conflict in &found {
            let pair = pair_of(conflict);
            let known = self.conflicts.get(&pair);
            if known.is_none_or(|known| !known.contains(conflict)) {
                let new = new.entry((pair, conflict.precedence));
                new.or_default().push(conflict);
            }
        }
        for (((waiting, holder), precedence), conflicts) in new {
            // Services of other sources have no Events.
            let subjects = self.subject(&waiting).zip(self.subject(&holder));
            if let Some((waiting, holder)) = subjects {
                self.outbox
                    .put(Notice::conflict(waiting, holder, precedence, &conflicts));
            }
        }
        let over = match about {
            About::All { .. } => self.conflicts.all(),
            // All that it has to do with is in what was found.
            About::Service { id, .. } => self.conflicts.of(id),
            About::NodeIps(_) | About::Nodes(_) | About::ServiceCidrs(_) | About::Pods(_) => {
                Vec::new()
            }
        };
        for pair in over {
            self.conflicts.remove(&pair);
        }
        for conflict in found {
            let of_pair = self.conflicts.entry(&pair_of(&conflict), BTreeSet::new);
            of_pair.insert(conflict);
        }
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
