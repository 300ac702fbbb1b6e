//! The translation of a frontend in the engine.

use std::collections::HashMap;

use shunt_model::Service;

use crate::instances::{
    engine::{Engine, Known, entry::Entry},
    instance::Instance,
    place::Place,
    query::Query,
    translate::{Candidates, has_usable, translate},
    vip::Said,
};

/// Result of the translation of a frontend.
pub(super) enum Translated {
    /// A service.
    Service(Box<Service>),
    /// Nothing: it has no address.
    Nothing,
    /// That is not known yet: it stays as it is.
    Undecided,
}

impl Engine {
    /// Translates a frontend. What is not known of its tiers is skipped if that was waited for long enough; if nothing
    /// is known of any, it stays as it is. Its problems are shown from then on.
    pub(super) fn translated(&mut self, index: usize, place: &Place) -> Translated {
        if self.entries[index].waits() {
            if !self.is_decided(&self.entries[index]) {
                return Translated::Undecided;
            }
            self.entries[index].stop_waiting();
        }
        let Self {
            entries,
            known,
            has_agreed,
            ..
        } = self;
        let tiers = entries[index].tiers.clone();
        let mut candidates = Vec::with_capacity(tiers.len());
        let mut problems = entries[index].notes.clone();
        let mut said = Vec::with_capacity(tiers.len());
        for (place, (tier, queries)) in tiers.iter().enumerate() {
            let gateways = queries.gateways.as_ref();
            let gateways = gateways.map(|gateways| instances(known, gateways));
            let found = instances(known, &queries.instances);
            let (instances, gateways) = match (found, gateways) {
                (Some(found), None) => (found, None),
                (Some(found), Some(Some(gateways))) => (found, Some(gateways)),
                // It has no part until it is known.
                _ => continue,
            };
            said.push(Said {
                is_first: place == 0,
                instances,
            });
            candidates.push(Candidates {
                tier,
                instances,
                gateways,
            });
        }
        if candidates.is_empty() {
            return Translated::Undecided;
        }
        let entry = &mut entries[index];
        let before = entry.agreed.clone();
        let address = entry.address(&said, &mut problems);
        *has_agreed |= entry.agreed != before;
        let translation =
            address.map(|address| translate(&entry.frontend, &address, candidates, place));
        entry.serving = translation.as_ref().and_then(|found| found.serving.clone());
        let skips = translation.iter().flat_map(|found| &found.skips);
        problems.extend(skips.map(ToString::to_string));
        let id = entry.frontend.id.to_string();
        self.show(id, problems);
        match translation {
            Some(found) => Translated::Service(Box::new(found.service)),
            None => Translated::Nothing,
        }
    }

    /// A frontend of which nothing is known but its address; `None`: not even that.
    pub(super) fn without_endpoints(&mut self, index: usize, place: &Place) -> Option<Service> {
        let entry = &mut self.entries[index];
        let address = entry.address(&[], &mut Vec::new())?;
        Some(translate(&entry.frontend, &address, [], place).service)
    }

    /// Returns whether enough is known of a frontend: what is not known would not have its new connections anyway.
    fn is_decided(&self, entry: &Entry) -> bool {
        if entry.first_is_open() {
            return false;
        }
        for (tier, queries) in &entry.tiers {
            let mut all = queries.clone().all();
            if !all.all(|query| instances(&self.known, &query).is_some()) {
                return false;
            }
            let here = instances(&self.known, &queries.instances).unwrap_or_default();
            if has_usable(&entry.frontend, tier, here) {
                return true;
            }
        }
        !entry.tiers_are_open
    }
}

fn instances<'a>(known: &'a HashMap<Query, Known>, query: &Query) -> Option<&'a [Instance]> {
    match known.get(query)? {
        Known::Instances(instances) => Some(instances),
        Known::Denied => None,
    }
}
