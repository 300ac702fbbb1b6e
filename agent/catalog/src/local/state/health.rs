//! The health of checks, by their last reports.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use tokio::time::Instant;

use crate::local::{
    definition::check::Probe,
    state::{check::Check, definitions::Definitions, status::Status},
};

/// Longest output, in bytes, as Consul has it.
const MAX_OUTPUT: usize = 4096;

/// Output of a check on which no report came in time.
const EXPIRED: &str = "TTL expired";

/// Health of a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Health {
    /// Its verdict.
    pub(crate) status: Status,
    /// The output that came with it.
    pub(crate) output: String,
    /// Since when it is critical, if it is.
    pub(crate) critical_since: Option<Instant>,
    /// Time at which it is critical unless a report comes before.
    expires: Option<Instant>,
}

/// Effect of a change of a check's health on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing is new, or the check is not there.
    None,
    /// Its output is: nothing depends on that.
    Output,
    /// Its status is.
    Status,
}

/// Health of all checks but aliases, by id.
#[derive(Debug, Default)]
pub(crate) struct HealthBook(BTreeMap<Arc<str>, Health>);

impl HealthBook {
    /// Returns the health of a check.
    pub(crate) fn of(&self, check: &Check) -> Option<&Health> {
        self.0.get(check.id.as_str())
    }

    /// The status of a check that is no alias.
    pub(crate) fn status(&self, check: &Check) -> Status {
        self.of(check).map_or(check.first, |health| health.status)
    }

    /// Follows the present registrations: new checks have their first status, others stay as they are. One that
    /// is registered anew has its time from now on.
    pub(crate) fn follow(&mut self, known: &Definitions, before: &Definitions, now: Instant) {
        let Self(book) = self;
        book.retain(|id, _| known.check(id).is_some());
        for check in known.checks() {
            if matches!(check.probe, Probe::Alias(_)) {
                book.remove(check.id.as_str());
                continue;
            }
            let is_same = before
                .check(&check.id)
                .is_some_and(|it| Arc::ptr_eq(it, check));
            let expires = match &check.probe {
                Probe::Ttl(ttl) => Some(now + *ttl),
                _ => None,
            };
            match book.get_mut(check.id.as_str()) {
                Some(_) if is_same => {}
                Some(health) => health.expires = expires,
                None => {
                    let health = Health::new(check.first, expires, now);
                    book.insert(Arc::from(check.id.as_str()), health);
                }
            }
        }
    }

    /// Sets how a check was when the agent ended.
    pub(crate) fn restore(&mut self, id: &str, status: Status, now: Instant) {
        if let Some(health) = self.0.get_mut(id) {
            health.set(status, String::new(), now);
        }
    }

    /// A check has come to a verdict.
    pub(crate) fn tell(
        &mut self,
        check: &Check,
        status: Status,
        output: &str,
        now: Instant,
    ) -> Effect {
        let Some(health) = self.0.get_mut(check.id.as_str()) else {
            return Effect::None;
        };
        if let Probe::Ttl(ttl) = &check.probe {
            health.expires = Some(now + *ttl);
        }
        health.set(status, shortened(output), now)
    }

    /// Returns the time at which the next check is critical for want of a report.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        self.0.values().filter_map(|health| health.expires).min()
    }

    /// Makes those critical on which no report came in time; returns their ids.
    pub(crate) fn expire(&mut self, now: Instant) -> Vec<Arc<str>> {
        let due = self.0.iter_mut().filter(|(_, health)| {
            let expires = health.expires;
            expires.is_some_and(|expires| expires <= now)
        });
        let mut expired = Vec::new();
        for (id, health) in due {
            health.expires = None;
            if health.set(Status::Critical, EXPIRED.to_owned(), now) == Effect::Status {
                expired.push(Arc::clone(id));
            }
        }
        expired
    }

    /// Returns the time that a check has been critical.
    pub(crate) fn critical_for(&self, check: &Check, now: Instant) -> Option<Duration> {
        let since = self.of(check)?.critical_since?;
        Some(now.saturating_duration_since(since))
    }
}

impl Health {
    fn new(status: Status, expires: Option<Instant>, now: Instant) -> Self {
        Self {
            status,
            output: String::new(),
            critical_since: (status == Status::Critical).then_some(now),
            expires,
        }
    }

    fn set(&mut self, status: Status, output: String, now: Instant) -> Effect {
        let effect = match () {
            () if self.status != status => Effect::Status,
            () if self.output != output => Effect::Output,
            () => Effect::None,
        };
        self.critical_since = match status {
            Status::Critical => self.critical_since.or(Some(now)),
            Status::Passing | Status::Warning => None,
        };
        (self.status, self.output) = (status, output);
        effect
    }
}

/// An output that is not too long.
fn shortened(output: &str) -> String {
    if output.len() <= MAX_OUTPUT {
        return output.to_owned();
    }
    let end = output.floor_char_boundary(MAX_OUTPUT);
    let (kept, total) = (&output[..end], output.len());
    format!("{kept} ... (captured {end} of {total} bytes)")
}
