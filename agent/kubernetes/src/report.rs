//! The report on a service's translation besides its frontends.

use std::{collections::HashSet, time::Instant};

use shunt_model::ServiceId;
use shunt_runtime::{ClusterMonitor, Limit};
use tracing::warn;

use crate::translate::problem::Problem;

/// Number of problems of a service that are shown. Its author decides how many there are.
const SHOWN: usize = 20;

/// Parts of services that are left out, for the log and the status.
#[derive(Debug)]
pub(super) struct Reporter {
    monitor: ClusterMonitor,
    limit: Limit,
    /// Number of services that the log has not named since it named one.
    unnamed: u64,
}

impl Reporter {
    pub(super) fn new(monitor: ClusterMonitor) -> Self {
        Self {
            monitor,
            limit: Limit::new(Instant::now()),
            unnamed: 0,
        }
    }

    /// Shows the parts that are left out of a service. New ones are logged in one line. Returns whether there are any.
    pub(super) fn report(&mut self, id: &ServiceId, problems: &[Problem]) -> bool {
        let shown = problems.iter().take(SHOWN).map(ToString::to_string);
        let mut shown: Vec<String> = shown.collect();
        if problems.len() > SHOWN {
            shown.push(format!("and {} more", problems.len() - SHOWN));
        }
        let new = self.monitor.update(|state| {
            // Most services have no problem.
            if shown.is_empty() && state.untranslated.is_empty() {
                return Vec::new();
            }
            let id = id.to_string();
            if shown.is_empty() {
                state.untranslated.remove(&id);
                return Vec::new();
            }
            let before = state.untranslated.get(&id);
            let before: HashSet<&String> = before.into_iter().flatten().collect();
            let new = shown.iter().filter(|problem| !before.contains(problem));
            let new: Vec<String> = new.cloned().collect();
            state.untranslated.insert(id, shown);
            new
        });
        if new.is_empty() {
            return false;
        }
        if self.limit.take(Instant::now()) {
            warn!("service {id}: {}{}", new.join("; "), self.others());
            self.unnamed = 0;
        } else {
            self.unnamed += 1;
        }
        true
    }

    fn others(&self) -> String {
        match self.unnamed {
            0 => String::new(),
            others => format!(" (and others of services, {others} times: see `shunt status`)"),
        }
    }
}
