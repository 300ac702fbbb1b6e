//! The registrations, by id.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use crate::local::state::{
    check::{Check, maintenance_id},
    service::Registered,
};

/// Services and checks. A copy costs what the list costs, not what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Definitions {
    services: BTreeMap<Arc<str>, Arc<Registered>>,
    checks: BTreeMap<Arc<str>, Arc<Check>>,
    /// The checks of each service, and of the node under the empty id.
    of_service: BTreeMap<Arc<str>, BTreeSet<Arc<str>>>,
}

impl Definitions {
    /// Restores registrations that were written down.
    pub(crate) fn restored(services: Vec<Registered>, checks: Vec<Check>) -> Self {
        let mut restored = Self::default();
        for mut service in services {
            service.take_hash();
            restored.put_service(service);
        }
        checks
            .into_iter()
            .for_each(|check| restored.put_check(check));
        restored
    }

    /// A service.
    pub fn service(&self, id: &str) -> Option<&Arc<Registered>> {
        self.services.get(id)
    }

    /// All services, by id.
    pub fn services(&self) -> impl ExactSizeIterator<Item = &Arc<Registered>> {
        self.services.values()
    }

    /// A check.
    pub(crate) fn check(&self, id: &str) -> Option<&Arc<Check>> {
        self.checks.get(id)
    }

    /// All checks, by id.
    pub fn checks(&self) -> impl ExactSizeIterator<Item = &Arc<Check>> {
        self.checks.values()
    }

    /// The checks of a service alone, by id; those of the node under the empty one.
    pub(crate) fn own_checks<'a>(&'a self, service: &str) -> impl Iterator<Item = &'a Arc<Check>> {
        let ids = self.of_service.get(service).into_iter().flatten();
        ids.filter_map(|id| self.checks.get(id))
    }

    /// The checks that count for a service: its own, and those of the node.
    pub fn checks_of<'a>(&'a self, service: &str) -> impl Iterator<Item = &'a Arc<Check>> {
        let own = (!service.is_empty()).then(|| self.own_checks(service));
        self.own_checks("").chain(own.into_iter().flatten())
    }

    /// Returns whether a service is in maintenance.
    pub(crate) fn is_in_maintenance(&self, service: &str) -> bool {
        self.checks.contains_key(maintenance_id(service).as_str())
    }

    /// Adds a service, or replaces it.
    pub(super) fn put_service(&mut self, registered: Registered) {
        let id = Arc::from(registered.service.id.as_str());
        self.services.insert(id, Arc::new(registered));
    }

    /// Takes a service away, with its checks.
    pub(super) fn remove_service(&mut self, id: &str) -> Option<Arc<Registered>> {
        for check in self.of_service.remove(id).into_iter().flatten() {
            self.checks.remove(&check);
        }
        self.services.remove(id)
    }

    /// Adds a check, or replaces it.
    pub(super) fn put_check(&mut self, check: Check) {
        // It may have been another service's.
        self.remove_check(&check.id);
        let id: Arc<str> = Arc::from(check.id.as_str());
        let service: Arc<str> = Arc::from(check.service.as_str());
        let checks = self.of_service.entry(service).or_default();
        checks.insert(Arc::clone(&id));
        self.checks.insert(id, Arc::new(check));
    }

    /// Takes a check away.
    pub(super) fn remove_check(&mut self, id: &str) {
        let Some(check) = self.checks.remove(id) else {
            return;
        };
        let service = check.service.as_str();
        if let Some(checks) = self.of_service.get_mut(service) {
            checks.remove(id);
            if checks.is_empty() {
                self.of_service.remove(service);
            }
        }
    }
}
