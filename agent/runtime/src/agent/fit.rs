//! A Resync that does not fit into the tables takes effect without some of its services.

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use shunt_datapath::ReadyTables;
use shunt_model::{Frontend, FrontendKey, Plan, RendererEvent, ServiceId, Snapshot};
use tracing::warn;

use crate::{
    agent::Agent,
    health_checks::HealthCheckChange,
    outcome::{ApplyError, Outcome},
    room::{self, Entries},
};

/// The part of the tables that the services may take, in percent, one try after the other: what is replaced needs room
/// beside what replaces it, and a set needs its slots in one piece.
const PARTS: [u64; 4] = [100, 90, 75, 50];

impl Agent {
    /// Publishes and commits the plan of a Resync, unless its frontends are too many for the tables anyway. A try that
    /// fails writes where no packet looks, and what it has written there is cleared: the same Resync twice writes
    /// nothing only without it.
    pub(super) fn install_if_it_may_fit(
        &mut self,
        plan: Plan,
        health_checks: &HealthCheckChange,
        ready: &ReadyTables,
    ) -> Result<Outcome, ApplyError> {
        let frontends = plan.snapshot.iter().flatten();
        let translated = frontends.filter(|(key, _)| self.datapath.translates(key));
        if let Some(full) = room::need(translated).refusal(&self.capacity()) {
            return Err(full.into());
        }
        Ok(self.install(plan, health_checks, ready)?)
    }

    /// Applies a Resync without the services that do not fit, as if it did not have them. `error`: the tables'
    /// error for all of it.
    pub(super) fn apply_what_fits(
        &mut self,
        snapshot: &Snapshot,
        mut error: ApplyError,
        health_checks: &HealthCheckChange,
        max_removal: Option<u8>,
    ) -> Result<Outcome, ApplyError> {
        let mut plan = self
            .renderer
            .plan(RendererEvent::Resync(snapshot.clone()))?;
        let mut frontends = plan.snapshot.take().unwrap_or_default();
        frontends.retain(|(key, _)| self.datapath.translates(key));
        // By what each service claims: where one is left out, others have the frontends that they share with it.
        let translates = |key: &FrontendKey| self.datapath.translates(key);
        let needs = room::needs(plan.claims(), translates);
        let capacity = self.capacity();
        let mut tried = BTreeMap::new();
        for part in PARTS {
            let services = snapshot.services.iter();
            let services = services.map(|service| Arc::clone(&service.id));
            let left_out = room::left_out(services, &needs, &capacity, part);
            if left_out == tried {
                continue;
            }
            let mut fitting = snapshot.clone();
            fitting
                .services
                .retain(|service| !left_out.contains_key(&service.id));
            let apply = |agent: &mut Self| {
                let resync = RendererEvent::Resync(fitting.clone());
                agent.apply_whole(resync, health_checks, &ReadyTables::default(), max_removal)
            };
            let mut applied = apply(self);
            if applied.as_ref().is_err_and(ApplyError::is_for_want_of_room) {
                self.make_room(&frontends, &left_out);
                applied = apply(self);
            }
            match applied {
                Ok(outcome) => {
                    let refused = left_out.iter();
                    let refused = refused.map(|(id, reason)| ((**id).clone(), reason.to_string()));
                    return Ok(Outcome {
                        refused: refused.collect(),
                        ..outcome
                    });
                }
                Err(new) if new.is_for_want_of_room() => (error, tried) = (new, left_out),
                Err(new) => return Err(new),
            }
        }
        Err(error)
    }

    /// Takes what is pinned of services that are left out from the tables: what fits instead may need its room. If
    /// that fails, what fits may still find some.
    fn make_room(
        &mut self,
        frontends: &[(FrontendKey, Frontend)],
        left_out: &BTreeMap<Arc<ServiceId>, room::NoRoom>,
    ) {
        let Ok(live) = self.datapath.live() else {
            return;
        };
        let live: HashSet<FrontendKey> = live
            .iter()
            .filter_map(|frontend| frontend.key.frontend())
            .collect();
        let is_kept = |(key, frontend): &&(FrontendKey, Frontend)| {
            live.contains(key) && !left_out.contains_key(&frontend.backends.service)
        };
        let kept: Vec<_> = frontends.iter().filter(is_kept).cloned().collect();
        self.journal.note_all();
        if kept.len() < live.len()
            && let Err(error) = self.datapath.resync(&kept)
        {
            warn!(%error, "no room is made for services that fit");
        }
    }

    /// Returns the number of entries that the tables have, in the order of [`room`].
    pub(super) fn capacity(&self) -> Entries {
        let tables = self.datapath.table_use();
        let tables = tables.iter().map(|table| u64::from(table.capacity));
        let source_ranges = self.datapath.source_range_capacity().map(u64::from);
        Entries::of_tables(tables, source_ranges)
    }
}
