//! A plan in the making.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    cluster_nodes::ClusterNodes,
    render::{
        claims::Age,
        conflict::Conflict,
        entry::Entry,
        error::RenderError,
        frontend::{Frontend, FrontendKey},
        locations::{self, Locations},
        nodes::NodeAddresses,
        plan::{Changes, Plan},
        state::State,
    },
    service::Service,
    service_id::ServiceId,
};

/// The services that an event concerns, in their new form, beside what is known.
pub(super) struct Draft<'a> {
    state: &'a State,
    nodes: Option<NodeAddresses>,
    cluster_nodes: Option<ClusterNodes>,
    services: HashMap<Arc<ServiceId>, Option<Entry>>,
    last_age: Age,
    /// All there is, not only what differs.
    complete: bool,
}

/// A service's claim to a frontend after the event.
type NewClaim<'a> = (FrontendKey, Age, &'a Arc<ServiceId>, &'a Frontend);

impl<'a> Draft<'a> {
    /// A draft that changes nothing yet.
    pub(super) fn new(state: &'a State) -> Self {
        Self {
            state,
            nodes: None,
            cluster_nodes: None,
            services: HashMap::new(),
            last_age: state.last_age,
            complete: false,
        }
    }

    /// Replaces the set of nodes, for the services that are put from now on. Gives whether that
    /// is a change.
    pub(super) fn set_nodes(&mut self, node_ips: BTreeSet<IpAddr>) -> bool {
        let nodes = NodeAddresses::new(node_ips, &self.state.options);
        let changed = nodes != self.state.nodes;
        self.nodes = Some(nodes);
        changed
    }

    /// Replaces the nodes of the cluster by name, if these are others.
    pub(super) fn set_cluster_nodes(&mut self, nodes: ClusterNodes) {
        self.cluster_nodes = (nodes != self.state.cluster_nodes).then_some(nodes);
    }

    /// Renders a service that is new or replaced.
    pub(super) fn put(&mut self, service: Arc<Service>) -> Result<(), RenderError> {
        let id = Arc::clone(&service.id);
        let entry = Entry::new(
            service,
            self.state.services.get(&id),
            self.nodes.as_ref().unwrap_or(&self.state.nodes),
            &self.state.options.balancing,
            &mut self.last_age,
        )?;
        self.services.insert(id, Some(entry));
        Ok(())
    }

    /// Removes a service that is known.
    pub(super) fn remove(&mut self, id: &Arc<ServiceId>) {
        self.services.insert(Arc::clone(id), None);
    }

    /// Removes every service that is known, so that those which are put from now on are all.
    pub(super) fn clear(&mut self) {
        self.services = self
            .state
            .services
            .keys()
            .map(|id| (Arc::clone(id), None))
            .collect();
        self.complete = true;
    }

    /// Whether the event concerns the service.
    pub(super) fn concerns(&self, id: &ServiceId) -> bool {
        self.services.contains_key(id)
    }

    /// The plan: every frontend that a concerned service claims, or claimed, before and after.
    pub(super) fn finish(self) -> Plan {
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
        let mut new = new.as_slice();
        for key in keys {
            let (of_key, rest) =
                new.split_at(new.iter().take_while(|claim| claim.0 == key).count());
            new = rest;
            let after = self.claims_after(key, of_key);
            let before = self.state.frontend(key);
            match (before, after.first()) {
                (Some(before), Some((_, _, _, after))) if before == *after => {}
                (Some(_), Some((_, _, _, after))) => changes.changed.push((key, (*after).clone())),
                (None, Some((_, _, _, after))) => changes.added.push((key, (*after).clone())),
                (Some(_), None) => changes.removed.push(key),
                (None, None) => {}
            }
            if let Some(((_, _, holder, frontend), waiting)) = after.split_first() {
                if self.complete {
                    snapshot.push((key, (*frontend).clone()));
                }
                conflicts.extend(waiting.iter().map(|(_, _, waiting, _)| Conflict {
                    key,
                    holder: Arc::clone(holder),
                    waiting: Arc::clone(waiting),
                }));
            }
        }

        let locations = self.locations();
        let Self {
            state,
            nodes,
            cluster_nodes,
            services,
            last_age,
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
            services,
            nodes,
            last_age,
            revision: state.revision,
        }
    }

    /// Where addresses are after the event: all of them if that is simpler.
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

    /// What the concerned services claim after the event.
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

    /// What the concerned services claim before the event.
    fn old_claims(&self) -> impl Iterator<Item = FrontendKey> {
        let entries = self
            .services
            .keys()
            .filter_map(|id| self.state.services.get(id));
        entries.flat_map(|entry| entry.claimed().map(|(key, _, _)| key))
    }

    /// All claims to one frontend after the event, the oldest first: the `new` ones and those of
    /// the services that the event does not concern.
    fn claims_after<'b>(&'b self, key: FrontendKey, new: &[NewClaim<'b>]) -> Vec<NewClaim<'b>> {
        let mut claims = new.to_vec();
        let others = self
            .state
            .claims
            .of(key)
            .filter(|(_, id)| !self.concerns(id));
        claims.extend(others.filter_map(|(age, id)| {
            Some((key, age, id, self.state.services.get(id)?.frontend(key)?))
        }));
        claims.sort_unstable_by_key(|(_, age, _, _)| *age);
        claims
    }
}
