//! What is shown of the engine.

use std::{collections::BTreeMap, time::Instant};

use crate::{
    runtime::health::{ByFamily, Pending},
    source::{
        consul::source::news::{Listener, shown},
        instances::{engine::Engine, frontend::NAMESPACE},
    },
};

impl Listener {
    /// Shows how things are.
    pub(super) fn show(&self, engine: &Engine) {
        let waiting = engine.waiting() as u64;
        let mut skipped: BTreeMap<String, Vec<String>> = engine.problems().clone();
        for (query, reasons) in &self.unreadable {
            let id = format!("{NAMESPACE}/{}", shown(query));
            skipped
                .entry(id)
                .or_default()
                .extend(reasons.iter().cloned());
        }
        let since = self.monitor.update(|state| {
            state.synced = engine.is_synced();
            state.pending = waiting;
            state.instances = engine.count_instances();
            state.skipped = skipped;
            state.pending_since = match waiting {
                0 => None,
                _ => Some(state.pending_since.unwrap_or_else(Instant::now)),
            };
            state.pending_since
        });
        // Until everything was told once, that is the first Resync's affair.
        let since = since.filter(|_| engine.is_synced());
        self.reports.set_pending(Pending {
            services: waiting,
            endpoints: 0,
            oldest: ByFamily {
                v4: since,
                v6: since,
            },
        });
    }
}
