//! The result of rendering an event, beside the known state: the difference is the plan.

use std::{collections::HashMap, sync::Arc};

use crate::{
    cluster_nodes::ClusterNodes,
    render::{
        age::Age,
        comparison::Comparison,
        conflict::Conflict,
        entry::Entry,
        frontend::{Frontend, FrontendKey},
        locations::{self, Locations},
        nodes::NodeAddresses,
        plan::{Changes, Plan},
        state::State,
    },
    service_id::ServiceId,
};

/// The services that an event concerns, rendered.
pub(super) struct Rendered<'a> {
    pub(super) state: &'a State,
    /// The nodes, if the event contains them.
    pub(super) nodes: Option<NodeAddresses>,
    /// The nodes by name, if these are others.
    pub(super) cluster_nodes: Option<ClusterNodes>,
    /// `None`: it is gone.
    pub(super) services: HashMap<Arc<ServiceId>, Option<Entry>>,
    pub(super) claims_made: u64,
    /// All there is, not only what differs.
    pub(super) complete: bool,
}

/// A service's claim to a frontend after the event.
type NewClaim<'a> = (FrontendKey, Age, &'a Arc<ServiceId>, &'a Frontend);

impl Rendered<'_> {
    /// The plan: every frontend that a concerned service claims, or claimed, before and after.
    pub(super) fn plan(self) -> Plan {
        let mut new: Vec<NewClaim<'_>> = self.new_claims().collect();
        new.sort_unstable_by_key(|(key, age, _, _)| (*key, *age));
        let mut keys: Vec<FrontendKey> = self
            .old_claims()
            .chain(new.iter().map(|claim| claim.0))
            .collect();
        keys.sort_unstable();
        keys.dedup();

        let (mut changes, mut conflicts, mut snapshot) =
            (Changes::default(), Vec::new(), Vec::new());
        let mut comparison = Comparison::default();
        let mut new = new.as_slice();
        for &key in &keys {
            let (of_key, rest) =
                new.split_at(new.iter().take_while(|claim| claim.0 == key).count());
            new = rest;
            let after = self.claims_after(key, of_key);
            let before = self.state.frontend(key);
            match (before, after.first()) {
                (Some(before), Some((_, _, _, after))) if comparison.are_alike(before, after) => {}
                (Some(_), Some((_, _, _, after))) => changes.changed.push((key, (*after).clone())),
                (None, Some((_, _, _, after))) => changes.added.push((key, (*after).clone())),
                (Some(_), None) => changes.removed.push(key),
                (None, None) => {}
            }
            if let Some(((_, first, holder, frontend), waiting)) = after.split_first() {
                if self.complete {
                    snapshot.push((key, (*frontend).clone()));
                }
                conflicts.extend(waiting.iter().map(|(_, age, waiting, _)| {
                    Conflict::new(key, (holder, *first), (waiting, *age))
                }));
            }
        }

        let locations = self.locations();
        let Self {
            state,
            nodes,
            cluster_nodes,
            services,
            claims_made,
            complete,
        } = self;
        Plan {
            changes,
            snapshot: complete.then_some(snapshot),
            frontend_ifs: None,
            backend_ifs: None,
            service_cidrs: None,
            cluster_nodes,
            locations,
            conflicts,
            frontends: keys,
            services,
            workloads: None,
            overrides: None,
            nodes,
            host_addresses: None,
            claims_made,
            revision: state.revision,
        }
    }

    /// Returns the nodes of addresses after the event: of all of them if that is simpler.
    fn locations(&self) -> Locations {
        let known = &self.state.cluster_nodes;
        let nodes = self.cluster_nodes.as_ref().unwrap_or(known);
        if self.complete || self.cluster_nodes.is_some() {
            let others = self.state.services.iter();
            let others = others.filter(|(id, _)| !self.concerns(id));
            let entries = others.map(|(_, entry)| entry);
            return locations::all(entries.chain(self.services.values().flatten()), nodes);
        }
        let concerned = self.services.iter();
        let concerned = concerned.map(|(id, new)| (id, self.state.services.get(id), new.as_ref()));
        self.state.atlas.after(concerned, nodes)
    }

    /// Returns whether the event concerns the service.
    fn concerns(&self, id: &ServiceId) -> bool {
        self.services.contains_key(id)
    }

    /// Returns the claims of the concerned services after the event.
    fn new_claims(&self) -> impl Iterator<Item = NewClaim<'_>> {
        self.services
            .iter()
            .filter_map(|(id, entry)| Some((id, entry.as_ref()?)))
            .flat_map(|(id, entry)| {
                entry
                    .claimed()
                    .map(move |(key, age, frontend)| (key, age, id, frontend))
            })
    }

    /// Returns the frontends that the concerned services claim before the event.
    fn old_claims(&self) -> impl Iterator<Item = FrontendKey> {
        let entries = self
            .services
            .keys()
            .filter_map(|id| self.state.services.get(id));
        entries.flat_map(|entry| entry.claimed().map(|(key, _, _)| key))
    }

    /// The claims to one frontend after the event, its holder's first: the `new` ones and those of
    /// the services that the event does not concern. Of these the holder's alone, if that is what it was: what the
    /// others wait for has not changed, and there may be many.
    fn claims_after<'b>(&'b self, key: FrontendKey, new: &[NewClaim<'b>]) -> Vec<NewClaim<'b>> {
        let known = || self.state.claims.of(key);
        let others = known().filter(|(_, id)| !self.concerns(id));
        let mut others = others.filter_map(|(age, id)| {
            Some((key, age, id, self.state.services.get(id)?.frontend(key)?))
        });
        let first = others.next();
        let holder = known().next().map(|(age, _)| age);
        let stays = |(_, age, _, _): &NewClaim<'_>| {
            holder == Some(*age) && new.first().is_none_or(|new| *age < new.1)
        };
        let has_stayed = first.as_ref().is_some_and(stays);
        let mut claims = new.to_vec();
        claims.extend(first);
        if !has_stayed {
            claims.extend(others);
        }
        claims.sort_unstable_by_key(|(_, age, _, _)| *age);
        claims
    }
}
