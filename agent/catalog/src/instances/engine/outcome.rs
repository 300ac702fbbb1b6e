//! The outcome of an event.

use std::{collections::BTreeMap, sync::Arc};

use shunt_model::ServiceId;
use shunt_runtime::{Consequences, Fate, Refusal};
use tracing::warn;

use crate::instances::engine::{About, Engine};

/// Prefix of the problem of a service whose event had no effect.
const LAST_CHANGE: &str = "its last change: ";

impl Engine {
    /// Takes note of the outcome of an event.
    pub(crate) fn done(&mut self, about: About, fate: Fate) {
        match (about, fate) {
            (About::All { marks, node_ips }, Ok(Consequences { refused, .. })) => {
                self.is_busy = false;
                self.told = marks;
                self.told_node_ips = node_ips;
                self.is_synced = true;
                self.without(refused);
            }
            (About::NodeIps(node_ips), Ok(Consequences { refused, .. })) => {
                self.is_busy = false;
                self.told_node_ips = node_ips;
                self.without(refused);
            }
            (About::All { .. } | About::NodeIps(_), Err(_)) => {
                self.is_busy = false;
                self.has_failed = true;
            }
            (About::Service { entry, mark }, Ok(Consequences { refused, .. })) => {
                self.under_way.remove(&entry);
                self.failed.remove(&entry);
                let id = Arc::clone(&self.entries[entry].frontend.id);
                match mark {
                    Some(_) => self.told.insert(id, mark),
                    None => self.told.remove(&id),
                };
                self.without(refused);
            }
            (About::Service { entry, .. }, Err(Refusal { reason, .. })) => {
                self.under_way.remove(&entry);
                self.failed.insert(entry);
                // What the renderer has of it stays, and is not what is known here.
                let id = Arc::clone(&self.entries[entry].frontend.id);
                let text = id.to_string();
                self.told.entry(id).and_modify(|mark| *mark = None);
                let mut problems = self.problems.remove(&text).unwrap_or_default();
                problems.retain(|problem| !problem.starts_with(LAST_CHANGE));
                problems.push(format!("{LAST_CHANGE}{reason}"));
                self.problems.insert(text, problems);
            }
        }
    }

    /// An event took effect without these services. Each is tried again by itself.
    fn without(&mut self, services: BTreeMap<ServiceId, String>) {
        for (id, reason) in services {
            let mut entries = self.entries.iter();
            let Some(entry) = entries.position(|entry| *entry.frontend.id == id) else {
                continue;
            };
            self.told.remove(&id);
            self.failed.insert(entry);
            let problems = self.problems.entry(id.to_string()).or_default();
            problems.push(format!("{LAST_CHANGE}it is left out: {reason}"));
        }
    }

    /// Has events that failed tried again.
    pub(crate) fn retry(&mut self) {
        self.has_failed = false;
        for entry in std::mem::take(&mut self.failed) {
            self.change(entry);
        }
    }

    /// Shows the problems of a service. New ones are logged.
    pub(super) fn show(&mut self, id: String, problems: Vec<String>) {
        if problems.is_empty() {
            self.problems.remove(&id);
            return;
        }
        let before = self.problems.get(&id);
        for problem in &problems {
            if before.is_none_or(|before| !before.contains(problem)) {
                warn!("service {id}: {problem}");
            }
        }
        self.problems.insert(id, problems);
    }
}
