//! A service that finds no room gets that of services of a namespace that has more.

use std::{collections::BTreeMap, sync::Arc};

use shunt_model::{FrontendKey, ServiceId};

use crate::{
    agent::{Agent, Refused},
    health_checks::HealthCheckChange,
    outcome::{ApplyError, Outcome},
    room::{self, Entries, Shares},
};

/// The whole of the tables, in percent.
const ALL: u64 = 100;

impl Agent {
    /// Applies a plan that found no room without services that give way to its `service`: those that a Resync would
    /// leave out where all that is known and this service were in it. The namespace of the service has to have a
    /// smaller part than another one, also with it.
    pub(super) fn apply_in_place_of_others(
        &mut self,
        refused: Box<Refused>,
        service: Option<&ServiceId>,
        health_checks: &HealthCheckChange,
        max_removal: Option<u8>,
    ) -> Result<Outcome, ApplyError> {
        let Refused { plan, error } = *refused;
        let error = ApplyError::Tables(error);
        let told = service.and_then(|id| plan.told(id));
        let Some(told) = told.filter(|_| error.is_for_want_of_room()) else {
            return Err(error);
        };
        let capacity = self.capacity();
        let mut needed = room::needs(plan.claims(), |key| self.datapath.translates(key));
        let shares = self.shares(&capacity);
        let id = &told.id;
        let of_service = needed.get(id).copied().unwrap_or_default();
        if !shares.is_below(id, &of_service, &capacity) {
            return Err(error);
        }
        let mut needs = shares.needs().clone();
        needs.append(&mut needed);
        let snapshot = self.renderer.snapshot_with(told);
        let ids = snapshot.services.iter();
        let ids = ids.map(|service| Arc::clone(&service.id));
        let left_out = room::left_out(ids, &needs, &capacity, ALL);
        if left_out.is_empty() || left_out.contains_key(id) {
            return Err(error);
        }
        self.apply_what_fits(&snapshot, error, health_checks, max_removal)
    }

    /// Returns what the services that are known take of the tables. It is counted once for each state.
    fn shares(&mut self, capacity: &Entries) -> &Shares {
        let generation = self.renderer.generation();
        let known = self.shares.take();
        let known = known.filter(|(counted, _)| *counted == generation);
        let (_, shares) = self.shares.insert(known.unwrap_or_else(|| {
            let translates = |key: &FrontendKey| self.datapath.translates(key);
            let needs: BTreeMap<_, _> = room::needs(self.renderer.claims(), translates);
            (generation, Shares::of(needs, capacity))
        }));
        shares
    }
}
