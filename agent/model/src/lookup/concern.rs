//! The questions whose answers an event may change.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use crate::{
    lookup::{
        interest::Interest,
        query::{Query, Subject},
    },
    render::{
        entry::Entry,
        frontend::{FrontendKey, FrontendKind},
        plan::{Plan, WorkloadPlan},
        renderer::Renderer,
        residents::addresses,
        state::State,
    },
    service_id::ServiceId,
    workload::Workload,
};

impl Renderer {
    /// The questions of `interest` whose answers may be others once `plan` is committed: at least
    /// those whose answers are. The plan must stem from this renderer as it is.
    pub fn concerned(&self, plan: &Plan, interest: &Interest) -> BTreeSet<Query> {
        if interest.is_empty() {
            return BTreeSet::new();
        }
        let nodes_change = plan.nodes().is_some_and(|nodes| *nodes != self.state.nodes);
        if plan.snapshot.is_some() || plan.cluster_nodes.is_some() || nodes_change {
            return interest.all().cloned().collect();
        }
        let mut concern = Concern {
            state: &self.state,
            interest,
            found: BTreeSet::new(),
        };
        for (id, new) in &plan.services {
            concern.service(id);
            for entry in [self.state.services.get(id), new.as_ref()] {
                entry.into_iter().for_each(|entry| concern.entry(entry));
            }
        }
        // A service that waits for one of these has it now, or has it no longer.
        if interest.has_services() {
            let keys = plan.changes.added.iter().chain(&plan.changes.changed);
            let keys = keys.map(|(key, _)| key).chain(&plan.changes.removed);
            keys.for_each(|key| concern.claimants(*key));
        }
        if let Some(addresses) = plan.host_addresses() {
            let known = &self.state.options.host_addresses;
            let changed = known.symmetric_difference(addresses);
            changed.for_each(|address| concern.address(*address));
        }
        if let Some(WorkloadPlan::Some(update)) = &plan.workloads {
            for new in &update.workloads {
                concern.resident(new);
            }
            let new = update.workloads.iter().map(|workload| &*workload.id);
            for id in new.chain(&update.gone) {
                if let Some(old) = self.state.residents.known(id) {
                    concern.resident(old);
                }
            }
        }
        concern.found.into_iter().cloned().collect()
    }
}

struct Concern<'a> {
    state: &'a State,
    interest: &'a Interest,
    found: BTreeSet<&'a Query>,
}

impl Concern<'_> {
    fn service(&mut self, id: &Arc<ServiceId>) {
        let subject = Subject::Service(Arc::clone(id));
        self.found.extend(self.interest.about(&subject));
    }

    fn address(&mut self, address: IpAddr) {
        self.found
            .extend(self.interest.about(&Subject::Address(address)));
    }

    /// Adds the questions about a service's addresses and about the endpoints behind it.
    fn entry(&mut self, entry: &Entry) {
        self.frontends(entry);
        for port in &entry.service.ports {
            let endpoints = &port.endpoints;
            let ips = endpoints.iter().map(|endpoint| endpoint.ip);
            let has = |address| {
                let found = endpoints.binary_search_by_key(&address, |endpoint| endpoint.ip);
                found.is_ok()
            };
            let queries = self.interest.among(ips, endpoints.len(), has);
            self.found.extend(queries);
        }
    }

    /// Adds the questions about a service's addresses. At its own addresses undeclared ports count
    /// too; at a node's, only ports that it has.
    fn frontends(&mut self, entry: &Entry) {
        for address in entry.service.addresses() {
            self.address(address);
        }
        if !entry.service.has_node_ports() {
            return;
        }
        let frontends = entry.frontends();
        let at = |address: IpAddr| {
            let first = frontends.partition_point(|(key, _)| key.address < address);
            let own = frontends.iter().skip(first);
            own.take_while(move |(key, _)| key.address == address)
        };
        let mut last = None;
        let addresses = frontends.iter().map(|(key, _)| key.address);
        let addresses = addresses.filter(move |address| last.replace(*address) != Some(*address));
        let has = |address| at(address).next().is_some();
        let queries = self.interest.among(addresses, frontends.len(), has);
        let is_at_one = |query: &&Query| match query.subject {
            Subject::Address(address) => at(address).any(|(key, frontend)| {
                frontend.kind == FrontendKind::NodePort && query.covers(key.port, key.protocol)
            }),
            Subject::Service(_) => false,
        };
        self.found.extend(queries.filter(is_at_one));
    }

    /// Every service that claims a frontend.
    fn claimants(&mut self, key: FrontendKey) {
        let state = self.state;
        for (_, id) in state.claims.of(key) {
            self.service(id);
        }
    }

    /// Adds the questions about a workload's addresses, and about the services that it is behind: by themselves, and
    /// as backends of the splits of others.
    fn resident(&mut self, workload: &Workload) {
        let state = self.state;
        for address in addresses(workload) {
            self.address(address);
            for id in state.members.of(address) {
                self.before(id);
                state.followers.of(id).for_each(|id| self.before(id));
            }
        }
    }

    /// Adds the questions about a service that has a workload behind it.
    fn before(&mut self, id: &Arc<ServiceId>) {
        self.service(id);
        if let Some(entry) = self.state.services.get(id) {
            self.frontends(entry);
        }
    }
}
