//! What is shown of a service's translation besides its frontends.

use std::{collections::HashSet, time::Instant};

use shunt_model::ServiceId;
use tracing::warn;

use crate::{
    runtime::{cluster_state::ClusterMonitor, limit::Limit},
    source::kubernetes::translate::problem::Problem,
};

/// How many problems of a service are shown. Whoever may write it decides how many there are.
const SHOWN: usize = 20;

/// What is left out of services, as the log and the status have it.
#[derive(Debug)]
pub(super) struct Reporter {
    monitor: ClusterMonitor,
    limit: Limit,
    /// How many services the log has not named since it named one.
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

    /// Shows what is left out of a service. What is new of it is logged in one line. Gives whether anything is.
    pub(super) fn report(&mut self, id: &ServiceId, problems: &[Problem]) -> bool {
        let shown = problems.iter().take(SHOWN).map(ToString::to_string);
        let mut shown: Vec<String> = shown.collect();
        if problems.len() > SHOWN {
            shown.push(format!("and {} more", problems.len() - SHOWN));
        }
        let new = self.monitor.update(|state| {
            // Most services have nothing to be said of.
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
