//! A plan in the making: the services of the event, and the others that it concerns.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    cluster_nodes::ClusterNodes,
    overrides::Overrides,
    render::{
        entry::Entry, error::RenderError, nodes::NodeAddresses, plan::Plan, rendered::Rendered,
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
    /// `None`: it is gone.
    services: HashMap<Arc<ServiceId>, Option<Arc<Service>>>,
    /// In the order in which they come, each with its form in the events.
    put: Vec<(Arc<Service>, Arc<Service>)>,
    /// The operator's changes, if they change.
    overrides: Option<Overrides>,
    /// All there is, not only what differs.
    complete: bool,
}

impl<'a> Draft<'a> {
    /// A draft that changes nothing yet.
    pub(super) fn new(state: &'a State) -> Self {
        Self {
            state,
            nodes: None,
            cluster_nodes: None,
            services: HashMap::new(),
            put: Vec::new(),
            overrides: None,
            complete: false,
        }
    }

    /// Replaces the set of nodes. Returns whether that is a change.
    pub(super) fn set_nodes(&mut self, nodes: NodeAddresses) -> bool {
        let changed = nodes != self.state.nodes;
        self.nodes = Some(nodes);
        changed
    }

    /// Replaces the nodes of the cluster by name, if these are others.
    pub(super) fn set_cluster_nodes(&mut self, nodes: ClusterNodes) {
        self.cluster_nodes = (nodes != self.state.cluster_nodes).then_some(nodes);
    }

    /// Replaces what an operator changes. To be called before any service is put.
    pub(super) fn set_overrides(&mut self, overrides: Overrides) {
        self.overrides = Some(overrides);
    }

    /// Adds a service that is new, replaced, or to be rendered anew, in its form in the events.
    pub(super) fn put(&mut self, told: Arc<Service>) {
        let overrides = self.overrides.as_ref().unwrap_or(&self.state.overrides);
        let local_backend_weight = self.state.options.balancing.local_backend_weight.get();
        let service = overrides.apply(Arc::clone(&told), local_backend_weight);
        let id = Arc::clone(&service.id);
        self.services.insert(id, Some(Arc::clone(&service)));
        self.put.push((service, told));
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

    /// Returns whether the event concerns the service.
    pub(super) fn concerns(&self, id: &ServiceId) -> bool {
        self.services.contains_key(id)
    }

    /// Renders the services that the event concerns, and returns the plan.
    ///
    /// # Errors
    ///
    /// A service cannot be rendered.
    pub(super) fn finish(mut self) -> Result<Plan, RenderError> {
        self.follow();
        let Self {
            state,
            nodes,
            cluster_nodes,
            services,
            put,
            overrides,
            complete,
        } = self;
        let find = |id: &ServiceId| match services.get(id) {
            Some(concerned) => concerned.as_ref(),
            None => state.services.get(id).map(|entry| &entry.service),
        };
        let mut claims_made = state.claims_made;
        let mut entries: HashMap<Arc<ServiceId>, Option<Entry>> = services
            .iter()
            .filter(|(_, service)| service.is_none())
            .map(|(id, _)| (Arc::clone(id), None))
            .collect();
        for (service, told) in put {
            let id = Arc::clone(&service.id);
            let entry = Entry::new(
                service,
                told,
                state.services.get(&id),
                &find,
                nodes.as_ref().unwrap_or(&state.nodes),
                &state.options.balancing,
                &mut claims_made,
            )?;
            entries.insert(id, Some(entry));
        }
        let plan = Rendered {
            state,
            nodes,
            cluster_nodes,
            services: entries,
            claims_made,
            complete,
        }
        .plan();
        Ok(Plan { overrides, ..plan })
    }

    /// The event concerns services too whose splits name one that it concerns.
    fn follow(&mut self) {
        let concerned = self.services.keys();
        let followers: BTreeSet<Arc<ServiceId>> = concerned
            .flat_map(|id| self.state.followers.of(id))
            .filter(|id| !self.concerns(id))
            .cloned()
            .collect();
        for id in followers {
            if let Some(entry) = self.state.services.get(&id) {
                self.put(Arc::clone(&entry.told));
            }
        }
    }
}
