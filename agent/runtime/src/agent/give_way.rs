//! A service that finds no room gets that of services of a namespace that has more, and node addresses get that of any.

use std::{collections::BTreeMap, sync::Arc};

use shunt_model::{FrontendKey, Plan, ServiceId, Snapshot};

use crate::{
    agent::{Agent, Refused},
    health_checks::HealthCheckChange,
    outcome::{ApplyError, Outcome},
    room::{self, Entries, Shares},
};

/// The whole of the tables, in percent.
const ALL: u64 = 100;

impl Agent {
    /// Applies a plan that found no room without the services that a Resync of all that is known after it would leave
    /// out. Node addresses are no namespace's: any service may give way to them. To the `service` of an event others
    /// give way only as [`Self::with_room_of_others`] has it.
    pub(super) fn apply_in_place_of_others(
        &mut self,
        refused: Box<Refused>,
        service: Option<&ServiceId>,
        health_checks: &HealthCheckChange,
        max_removal: Option<u8>,
    ) -> Result<Outcome, ApplyError> {
        let Refused { plan, error } = *refused;
        let error = ApplyError::Tables(error);
        if !error.is_for_want_of_room() {
            return Err(error);
        }
        let snapshot = match service {
            Some(id) => self.with_room_of_others(&plan, id),
            None => plan.nodes().map(|_| self.renderer.snapshot_after(&plan)),
        };
        let Some(snapshot) = snapshot else {
            return Err(error);
        };
        self.apply_what_fits(&snapshot, error, health_checks, max_removal)
    }

    /// Returns all that is known after the plan of a service if others give way to it there: the namespace of the
    /// service has to have a smaller part than another one, also with it.
    fn with_room_of_others(&mut self, plan: &Plan, id: &ServiceId) -> Option<Snapshot> {
        let capacity = self.capacity();
        let mut needed = room::needs(plan.claims(), |key| self.datapath.translates(key));
        let of_service = needed.get(id).copied()?;
        let shares = self.shares(&capacity);
        if !shares.is_below(id, &of_service, &capacity) {
            return None;
        }
        let mut needs = shares.needs().clone();
        needs.append(&mut needed);
        let snapshot = self.renderer.snapshot_after(plan);
        let ids = snapshot.services.iter();
        let ids = ids.map(|service| Arc::clone(&service.id));
        let left_out = room::left_out(ids, &needs, &capacity, ALL);
        let is_served = !left_out.is_empty() && !left_out.contains_key(id);
        is_served.then_some(snapshot)
    }

    /// Returns what the services that are known take of the tables. It is counted once for each state.
    pub(super) fn shares(&mut self, capacity: &Entries) -> &Shares {
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
