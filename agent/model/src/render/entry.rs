//! A service with what was rendered from it.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    forwarding::Forwarding,
    render::{
        claims::{Age, Claim},
        error::RenderError,
        frontend::{BackendSet, Frontend, FrontendKey},
        nodes::NodeAddresses,
        options::Balancing,
        rendering::render,
    },
    service::Service,
};

/// What the renderer keeps of a service.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) service: Arc<Service>,
    /// Sorted by key, each key once; also those that an older claim of another service withholds.
    frontends: Vec<(FrontendKey, Frontend)>,
    /// Since when the service claims what it claims.
    ages: BTreeMap<Claim, Age>,
}

impl Entry {
    /// Renders `service`. What it has in common with its `old` form, it keeps: the age of claims,
    /// and backend sets in their place in memory. Other claims are as old as `next_age` says.
    pub(super) fn new(
        service: Arc<Service>,
        old: Option<&Self>,
        nodes: &NodeAddresses,
        balancing: &Balancing,
        next_age: &mut Age,
    ) -> Result<Self, RenderError> {
        let mut frontends = render(&service, nodes, balancing)?;
        if let Some(old) = old {
            share_sets(&mut frontends, old);
        }
        let ages = Claim::of_service(&service)
            .map(|claim| {
                let known = old.and_then(|old| old.ages.get(&claim).copied());
                let age = known.unwrap_or_else(|| {
                    *next_age += 1;
                    *next_age
                });
                (claim, age)
            })
            .collect();
        Ok(Self {
            service,
            frontends,
            ages,
        })
    }

    /// The frontends that the service claims, with the age of each claim, sorted by key.
    pub(super) fn claimed(&self) -> impl Iterator<Item = (FrontendKey, Age, &Frontend)> {
        self.frontends.iter().map(|(key, frontend)| {
            // Every frontend stems from a claim of the service; one that did not would go last.
            let age = self.ages.get(&Claim::of_frontend(key, frontend)).copied();
            (*key, age.unwrap_or(Age::MAX), frontend)
        })
    }

    /// Whether any of its frontends is in mode dsr.
    pub(super) fn has_dsr(&self) -> bool {
        let mut frontends = self.frontends.iter();
        frontends.any(|(_, frontend)| frontend.forwarding == Forwarding::Dsr)
    }

    /// One of the frontends that the service claims.
    pub(super) fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        let index = self
            .frontends
            .binary_search_by_key(&key, |(key, _)| *key)
            .ok()?;
        Some(&self.frontends[index].1)
    }
}

/// Replaces each new backend set that says what an old one said by the old one, so that renderer
/// and datapath go on sharing one copy, and comparing them stays cheap.
fn share_sets(frontends: &mut [(FrontendKey, Frontend)], old: &Entry) {
    // A service has few distinct sets for its many frontends.
    let mut decided: Vec<(Arc<BackendSet>, Arc<BackendSet>)> = Vec::new();
    let mut share = |new: &mut Arc<BackendSet>, before: Option<&Arc<BackendSet>>| {
        let known = decided.iter().find(|(set, _)| Arc::ptr_eq(set, new));
        let chosen = match known {
            Some((_, chosen)) => Arc::clone(chosen),
            None => {
                let chosen = Arc::clone(before.filter(|before| *before == new).unwrap_or(new));
                decided.push((Arc::clone(new), Arc::clone(&chosen)));
                chosen
            }
        };
        *new = chosen;
    };
    for (key, frontend) in frontends {
        let before = old.frontend(*key);
        share(
            &mut frontend.backends,
            before.map(|before| &before.backends),
        );
        if let Some(here) = &mut frontend.this_node {
            let before = before.and_then(|before| before.this_node.as_ref());
            share(
                &mut Arc::make_mut(here).backends,
                before.map(|before| &before.backends),
            );
        }
    }
}
