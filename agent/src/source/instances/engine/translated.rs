//! What a frontend comes to.

use std::collections::HashMap;

use crate::source::instances::{
    engine::{Engine, Known, entry::Entry},
    instance::Instance,
    place::Place,
    query::Query,
    translate::{Candidates, Translation, has_usable, translate},
};

impl Engine {
    /// What a frontend comes to; `None`: it has no address, or nothing is known of the instances that it
    /// wants most. What is wrong with it is shown from then on.
    pub(super) fn translated(&mut self, index: usize, place: &Place) -> Option<Translation> {
        let Self { entries, known, .. } = self;
        let tiers = entries[index].tiers.clone();
        let mut candidates = Vec::with_capacity(tiers.len());
        let mut problems = Vec::new();
        for (number, (tier, queries)) in tiers.iter().enumerate() {
            let gateways = queries.gateways.as_ref();
            let gateways = gateways.map(|gateways| instances(known, gateways));
            let found = instances(known, &queries.instances);
            let (instances, gateways) = match (found, gateways) {
                (Some(found), None) => (found, None),
                (Some(found), Some(Some(gateways))) => (found, Some(gateways)),
                _ if number == 0 => return None,
                // It has no part until it is known.
                _ => continue,
            };
            candidates.push(Candidates {
                tier,
                instances,
                gateways,
            });
        }
        let entry = &mut entries[index];
        // The most wanted tier says it.
        let first = candidates.first().map(|first| first.instances);
        let address = entry.address(first.unwrap_or_default(), &mut problems);
        let translation =
            address.map(|address| translate(&entry.frontend, &address, candidates, place));
        entry.serving = translation.as_ref().and_then(|found| found.serving.clone());
        let skips = translation.iter().flat_map(|found| &found.skips);
        problems.extend(skips.map(ToString::to_string));
        let id = entry.frontend.id.to_string();
        self.show(id, problems);
        translation
    }

    /// Whether enough is known of a frontend to begin with: what is not known would not have its new
    /// connections anyway.
    pub(super) fn is_decided(&self, entry: &Entry) -> bool {
        for (tier, queries) in &entry.tiers {
            let all = queries.clone().all();
            if !all.into_iter().all(|query| self.known.contains_key(&query)) {
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
        Known::Denied(_) => None,
    }
}
