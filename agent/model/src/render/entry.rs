//! A service with what was rendered from it.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use ipnet::IpNet;

use crate::{
    endpoint::Endpoint,
    forwarding::Forwarding,
    render::{
        age::Age,
        claims::Claim,
        error::RenderError,
        followers::names,
        frontend::{BackendSet, Frontend, FrontendKey},
        nodes::NodeAddresses,
        options::Balancing,
        rendering::render,
        split_target::{Others, PortIndex, reachable},
    },
    service::Service,
    service_id::ServiceId,
};

/// The renderer's state of a service.
#[derive(Debug)]
pub(crate) struct Entry {
    /// With what an operator has changed.
    pub(crate) service: Arc<Service>,
    /// Its form in the events.
    pub(super) told: Arc<Service>,
    /// The other services that its splits name, as far as they exist, sorted.
    named: Box<[Arc<Service>]>,
    /// Sorted by key, each key once; also those that an older claim of another service withholds.
    frontends: Vec<(FrontendKey, Frontend)>,
    /// Since when the service claims what it claims.
    ages: BTreeMap<Claim, Age>,
}

impl Entry {
    /// Renders `service`, which is `told` with the operator's changes, beside which there are `others`. It keeps from
    /// its `old` form what is the same: the number of claims, and backend sets in their place in memory. Other claims
    /// are counted on from `claims_made`.
    pub(super) fn new(
        service: Arc<Service>,
        told: Arc<Service>,
        old: Option<&Self>,
        others: &Others<'_>,
        nodes: &NodeAddresses,
        balancing: &Balancing,
        claims_made: &mut u64,
    ) -> Result<Self, RenderError> {
        let named: Box<[Arc<Service>]> = names(&service)
            .filter_map(|id| others(id).cloned())
            .collect();
        let mut frontends = render(&service, &among(&named), nodes, balancing)?;
        if let Some(old) = old {
            share_sets(&mut frontends, old);
        }
        let ages = Claim::of_service(&service)
            .map(|claim| {
                let known = old.and_then(|old| old.ages.get(&claim));
                let number = match known {
                    Some(age) => age.number,
                    None => {
                        *claims_made += 1;
                        *claims_made
                    }
                };
                let is_other = !claim.is_to_cluster_ip(&service);
                (claim, Age::new(is_other, service.seniority, number))
            })
            .collect();
        Ok(Self {
            service,
            told,
            named,
            frontends,
            ages,
        })
    }

    /// The age of the service, and of its first claim.
    pub(super) fn age(&self) -> Age {
        let numbers = self.ages.values().map(|age| age.number);
        let first = numbers.min().unwrap_or(Age::MAX.number);
        Age::new(false, self.service.seniority, first)
    }

    /// The frontends that the service claims, sorted by key.
    pub(crate) fn frontends(&self) -> &[(FrontendKey, Frontend)] {
        &self.frontends
    }

    /// The frontends that the service claims, with the age of each claim, sorted by key.
    pub(super) fn claimed(&self) -> impl Iterator<Item = (FrontendKey, Age, &Frontend)> {
        self.frontends.iter().map(|(key, frontend)| {
            // Every frontend stems from a claim of the service; one that did not would go last.
            let age = self.ages.get(&Claim::of_frontend(key, frontend)).copied();
            (*key, age.unwrap_or(Age::MAX), frontend)
        })
    }

    /// Returns whether any of its frontends is in mode dsr.
    pub(super) fn has_dsr(&self) -> bool {
        let mut frontends = self.frontends.iter();
        frontends.any(|(_, frontend)| frontend.forwarding == Forwarding::Dsr)
    }

    /// The endpoints to which connections to its port of this name may go.
    pub(super) fn endpoints_of(&self, port: &str) -> impl Iterator<Item = Cow<'_, Endpoint>> {
        let mut ports = self.service.ports.iter();
        let port = ports.find(move |found| *found.name == *port);
        let index = PortIndex::default();
        port.into_iter()
            .flat_map(move |port| reachable(&self.service, port, &among(&self.named), &index))
    }

    /// The endpoints to which its connections may go, those of each port.
    pub(super) fn endpoints(&self) -> impl Iterator<Item = Cow<'_, Endpoint>> {
        let ports = self.service.ports.iter();
        let index = PortIndex::default();
        ports.flat_map(move |port| reachable(&self.service, port, &among(&self.named), &index))
    }

    /// One of the frontends that the service claims.
    pub(crate) fn frontend(&self, key: FrontendKey) -> Option<&Frontend> {
        let index = self
            .frontends
            .binary_search_by_key(&key, |(key, _)| *key)
            .ok()?;
        Some(&self.frontends[index].1)
    }
}

/// Returns a function that finds a service among these, which are sorted.
fn among<'a>(services: &'a [Arc<Service>]) -> impl Fn(&ServiceId) -> Option<&'a Arc<Service>> {
    move |id| {
        let place = services.binary_search_by(|service| (*service.id).cmp(id));
        services.get(place.ok()?)
    }
}

/// New values and their replacements, by the address of the new one. The map keeps both, so that no other value gets
/// that address.
type Decided<T> = HashMap<*const T, (Arc<T>, Arc<T>)>;

/// Replaces a new value by the old one if that is alike, as it was decided for those that share the new one.
fn share_one<T: ?Sized + PartialEq>(
    decided: &mut Decided<T>,
    new: &mut Arc<T>,
    before: Option<&Arc<T>>,
) {
    let (_, chosen) = decided.entry(Arc::as_ptr(new)).or_insert_with(|| {
        let chosen = before.filter(|before| *before == new).unwrap_or(new);
        (Arc::clone(new), Arc::clone(chosen))
    });
    *new = Arc::clone(chosen);
}

/// Replaces each new backend set that equals an old one by the old one, so that renderer and datapath go on sharing one
/// copy, and comparing them stays cheap. Likewise source ranges.
fn share_sets(frontends: &mut [(FrontendKey, Frontend)], old: &Entry) {
    // Each with what it was replaced by, for all frontends that share it.
    let mut decided: Decided<BackendSet> = HashMap::new();
    let mut share = |new: &mut _, before: Option<_>| share_one(&mut decided, new, before);
    let mut ranges: Decided<[IpNet]> = HashMap::new();
    for (key, frontend) in frontends {
        let before = old.frontend(*key);
        if !frontend.sources.is_empty() {
            let before = before.map(|before| &before.sources);
            share_one(&mut ranges, &mut frontend.sources, before);
        }
        share(
            &mut frontend.backends,
            before.map(|before| &before.backends),
        );
        let others = [
            (
                &mut frontend.this_node,
                before.and_then(|before| before.this_node.as_ref()),
            ),
            (
                &mut frontend.with_draining,
                before.and_then(|before| before.with_draining.as_ref()),
            ),
        ];
        for (other, before) in others {
            if let Some(other) = other {
                share(
                    &mut Arc::make_mut(other).backends,
                    before.map(|before| &before.backends),
                );
            }
        }
    }
}
