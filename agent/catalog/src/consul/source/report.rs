//! The report on the engine.

use std::{collections::BTreeMap, time::Instant};

use shunt_runtime::{ByFamily, KnownGateway, Pending};

use crate::{
    consul::source::news::{Listener, shown},
    instances::{
        engine::Engine,
        frontend::NAMESPACE,
        instance::CheckStatus,
        query::{Query, QueryKind},
        tier::{Datacenter, GATEWAYS},
    },
};

impl Listener {
    /// Shows how things are.
    pub(super) fn show(&mut self, engine: &Engine) {
        let waiting = engine.waiting() as u64;
        let mut skipped: BTreeMap<String, Vec<String>> = engine.problems().clone();
        for (query, reasons) in &self.unreadable {
            let id = format!("{NAMESPACE}/{}", shown(query));
            skipped
                .entry(id)
                .or_default()
                .extend(reasons.iter().cloned());
        }
        self.monitor.update(|state| {
            state.synced = engine.is_synced();
            state.pending = waiting;
            state.instances = engine.count_instances();
            state.skipped = skipped;
            if engine.has_other_datacenters() {
                let failed_over = engine.failed_over();
                state.failed_over = failed_over
                    .map(|(id, datacenter)| (id.to_string(), datacenter.to_owned()))
                    .collect();
                state.gateways = gateways(engine);
            }
            state.pending_since = match waiting {
                0 => None,
                _ => Some(state.pending_since.unwrap_or_else(Instant::now)),
            };
        });
        // Until everything was sent once, that is the first Resync's affair.
        let is_late = engine.has_pending() && engine.is_synced();
        let now = Instant::now();
        let since = is_late.then(|| self.late_since.unwrap_or(now));
        self.late_since = since;
        self.reports.set_pending(Pending {
            services: waiting,
            endpoints: 0,
            refused: engine.refused() as u64,
            oldest: ByFamily {
                v4: since,
                v6: since,
            },
        });
    }
}

/// The gateways of other datacenters that are known.
fn gateways(engine: &Engine) -> Vec<KnownGateway> {
    let mut gateways = Vec::new();
    for query in engine.queries() {
        let Some(origin) = origin(query) else {
            continue;
        };
        let found = engine.instances(query);
        let found = found.iter().flat_map(|found| found.iter());
        gateways.extend(found.map(|gateway| {
            let mut checks = gateway.checks.iter();
            KnownGateway {
                datacenter: gateway.datacenter.to_string(),
                node: gateway.node.to_string(),
                id: gateway.id.to_string(),
                usable: checks.all(|check| check.status != CheckStatus::Critical),
                origin,
            }
        }));
    }
    gateways.sort();
    gateways
}

/// Returns the source of the gateways of a query; `None`: it gives others than gateways.
fn origin(query: &Query) -> Option<&'static str> {
    match (query.kind, &query.datacenter) {
        (QueryKind::MeshGateways, _) => Some("Consul's federation state"),
        (QueryKind::Service, Datacenter::Other(_)) if &*query.service == GATEWAYS => {
            Some("the catalog of its datacenter")
        }
        _ => None,
    }
}
