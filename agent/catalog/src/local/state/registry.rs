//! All of it together: the registrations, their status, and the effects of each change on others.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use tokio::time::Instant;

use crate::local::{
    definition::check::Probe,
    state::{
        alias::{aliases, output},
        check::{Check, NODE_MAINTENANCE},
        definitions::Definitions,
        effects::Effects,
        health::{Effect, HealthBook},
        indexes::Indexes,
        status::Status,
    },
};

/// The registrations and their status.
#[derive(Debug, Default)]
pub struct Registry {
    known: Definitions,
    book: HealthBook,
    aliases: BTreeMap<Arc<str>, Status>,
    indexes: Indexes,
}

/// Verdict on a service, in Consul's words: maintenance counts more than checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// The verdict of its checks.
    Checked(Status),
    /// It is in maintenance.
    Maintenance,
}

impl Verdict {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checked(status) => status.name(),
            Self::Maintenance => "maintenance",
        }
    }
}

impl Registry {
    /// One without anything, whose changes are counted from `first` on.
    pub(crate) fn starting_at(first: u64) -> Self {
        Self {
            indexes: Indexes::starting_at(first),
            ..Self::default()
        }
    }

    /// The numbers of its changes.
    pub const fn indexes(&self) -> &Indexes {
        &self.indexes
    }

    /// Returns the registrations.
    pub const fn known(&self) -> &Definitions {
        &self.known
    }

    /// The status of a check.
    pub fn status(&self, check: &Check) -> Status {
        let alias = self.aliases.get(check.id.as_str()).copied();
        alias.unwrap_or_else(|| self.book.status(check))
    }

    /// Returns the output of a check with its status.
    pub fn output(&self, check: &Check) -> String {
        let own = |check: &Check| {
            let health = self.book.of(check);
            health
                .map(|health| health.output.clone())
                .unwrap_or_default()
        };
        match check.probe {
            Probe::Alias(_) => output(check, &self.known, |other| {
                let text = match other.probe {
                    Probe::Alias(_) => String::new(),
                    _ => own(other),
                };
                (self.status(other), text)
            }),
            _ => own(check),
        }
    }

    /// Returns the verdict on a service.
    pub fn verdict(&self, service: &str) -> Verdict {
        let node = self.known.check(NODE_MAINTENANCE).is_some();
        if node || self.known.is_in_maintenance(service) {
            return Verdict::Maintenance;
        }
        let checks = self.known.checks_of(service);
        let worst = checks.map(|check| self.status(check)).max();
        Verdict::Checked(worst.unwrap_or(Status::Passing))
    }

    /// Has what is registered replaced by this, as it was planned from it.
    pub(crate) fn install(&mut self, next: Definitions, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let before = std::mem::replace(&mut self.known, next);
        let known = &self.known;
        for old in before.services() {
            match known.service(&old.service.id) {
                Some(new) if Arc::ptr_eq(old, new) || old.service == new.service => {}
                new => {
                    effects.changed.insert(old.service.id.clone());
                    effects.concern(old);
                    new.into_iter().for_each(|new| effects.concern(new));
                }
            }
        }
        for new in known.services() {
            if before.service(&new.service.id).is_none() {
                effects.changed.insert(new.service.id.clone());
                effects.concern(new);
            }
        }
        // Checks that came, went or became others.
        let differs = |check: &&Arc<Check>, others: &Definitions| {
            let other = others.check(&check.id);
            other.is_none_or(|other| !Arc::ptr_eq(other, check) && other != *check)
        };
        let gone = before.checks().filter(|check| differs(check, known));
        let new = known.checks().filter(|check| differs(check, &before));
        let owners = gone.chain(new).map(|check| check.service.clone());
        let owners: BTreeSet<String> = owners.collect();
        effects.has_checks = !owners.is_empty();
        self.book.follow(&self.known, &before, now);
        for service in &owners {
            self.concern(service, &mut effects);
        }
        self.look_at_aliases(&mut effects);
        self.indexes.count(&effects);
        if !effects.changed.is_empty() {
            self.indexes.forget(&self.known);
        }
        effects
    }

    /// Takes the verdict of a check that was run, or of a client that reports on one.
    pub(crate) fn tell(&mut self, id: &str, status: Status, output: &str, now: Instant) -> Effects {
        let mut effects = Effects::default();
        if let Some(check) = self.known.check(id).map(Arc::clone)
            && self.book.tell(&check, status, output, now) == Effect::Status
        {
            self.concern(&check.service, &mut effects);
            (effects.has_status, effects.has_checks) = (true, true);
            self.look_at_aliases(&mut effects);
            self.indexes.count(&effects);
        }
        effects
    }

    /// Sets how checks were when the agent ended.
    pub(crate) fn restore(&mut self, statuses: &BTreeMap<String, Status>, now: Instant) {
        for (id, status) in statuses {
            self.book.restore(id, *status, now);
        }
        self.look_at_aliases(&mut Effects::default());
    }

    /// Returns the status of the checks, without aliases, for the next agent.
    pub(crate) fn statuses(&self) -> BTreeMap<String, Status> {
        let own = self.known.checks().filter(|check| {
            let probe = &check.probe;
            !matches!(probe, Probe::Alias(_) | Probe::Maintenance)
        });
        own.map(|check| (check.id.clone(), self.book.status(check)))
            .collect()
    }

    /// Returns the time by which the next report on a check has to come.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.book.next_expiry()
    }

    /// Makes those checks critical on which no report came in time.
    pub(crate) fn expire(&mut self, now: Instant) -> Effects {
        let mut effects = Effects::default();
        let expired = self.book.expire(now);
        for id in &expired {
            if let Some(check) = self.known.check(id).map(Arc::clone) {
                self.concern(&check.service, &mut effects);
            }
        }
        if !expired.is_empty() {
            (effects.has_status, effects.has_checks) = (true, true);
            self.look_at_aliases(&mut effects);
            self.indexes.count(&effects);
        }
        effects
    }

    /// The services that have been critical for longer than one of their checks that are run allows.
    pub(crate) fn overdue(
        &self,
        now: Instant,
        is_run: impl Fn(&Check) -> bool,
    ) -> BTreeSet<String> {
        let checks = self.known.checks().filter(|check| {
            let allowed = check.deregister_after;
            let critical = self.book.critical_for(check, now);
            !check.service.is_empty()
                && is_run(check)
                && allowed.is_some_and(|allowed| critical.is_some_and(|it| it >= allowed))
        });
        checks.map(|check| check.service.clone()).collect()
    }

    /// Finds the status of aliases anew, and the services that it concerns.
    fn look_at_aliases(&mut self, effects: &mut Effects) {
        let now = aliases(&self.known, |check| self.book.status(check));
        let before = std::mem::replace(&mut self.aliases, now);
        let differing = self
            .aliases
            .iter()
            .filter(|(id, status)| before.get(*id) != Some(*status));
        let checks = differing.filter_map(|(id, _)| self.known.check(id));
        let owners: BTreeSet<String> = checks.map(|check| check.service.clone()).collect();
        effects.has_checks |= !owners.is_empty();
        for service in &owners {
            self.concern(service, effects);
        }
    }

    /// The health of a service, or of all, is another.
    fn concern(&self, service: &str, effects: &mut Effects) {
        if service.is_empty() {
            self.known.services().for_each(|it| effects.concern(it));
        } else if let Some(registered) = self.known.service(service) {
            effects.concern(registered);
        }
    }
}
