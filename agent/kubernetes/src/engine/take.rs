//! News, taken note of.

use std::time::{Instant, SystemTime};

use shunt_runtime::ClusterMonitor;
use tracing::info;

use crate::{
    engine::{Change, Engine},
    links::Link,
    objects::{endpoint_slice::EndpointSlice, service::Service, service_cidr::ServiceCidr},
    store::Concerned,
    translate::view::NodeView,
    watch::step::Step,
};

impl Engine {
    /// Takes note of a change.
    pub(crate) fn take(&mut self, change: Change) {
        let now = Instant::now();
        let is_first = !self.is_synced && !self.links.are_complete();
        let mut concerned = match change {
            Change::Service(step) => self.service(step),
            Change::EndpointSlice(step) => self.endpoint_slice(step),
            Change::ApiServer(step) => self.api_server(step),
            Change::ServiceCidr(step) => self.service_cidr(step),
            Change::Node(step) => self.node(step, is_first),
            Change::Peer(step) => {
                self.peer(step);
                Vec::new()
            }
            Change::NoPeers => {
                self.peers_are_gone();
                Vec::new()
            }
            Change::Route(change) => self.route(change),
            Change::Pod(step) => {
                self.pod(step);
                Vec::new()
            }
            Change::Machine(group, step) => {
                self.machine(group, step);
                Vec::new()
            }
            Change::Server(step) => {
                self.server(step);
                Vec::new()
            }
        };
        if concerned.len() > 1 {
            self.store.sort_by_age(&mut concerned);
        }
        let by_endpoints = concerned.iter().filter(|one| one.by_endpoints).count();
        let by_services = concerned.len() - by_endpoints;
        self.reports
            .count_changes(by_services as u64, by_endpoints as u64);
        // The parts of the first event are not sent again.
        if self.is_synced || !is_first {
            for concerned in concerned {
                self.pending.add(concerned, now);
            }
        }
        let are_complete = self.links.are_complete();
        if is_first && are_complete {
            self.first_lists_are_there();
        }
        if !self.is_synced && !are_complete && self.links.are_essentials_complete() {
            self.waits_since.get_or_insert(now);
        }
        self.show();
    }

    fn service(&mut self, mut step: Step<Service>) -> Vec<Concerned> {
        let (external_ips, forwarding) = (self.external_ips, self.forwarding_by_annotation);
        let adapt = |service: &mut Service| {
            if !external_ips {
                service.external_ips.clear();
            }
            if !forwarding {
                service.forwarding = Ok(None);
            }
        };
        match &mut step {
            Step::Listed(list) => list.objects.iter_mut().for_each(adapt),
            Step::Applied(service) => adapt(service),
            Step::Deleted(_)
            | Step::Unreadable(_)
            | Step::Alive
            | Step::Lost(_)
            | Step::Absent(_) => {}
        }
        follow("Services", &mut self.links.services, &self.monitor, &step);
        self.look_for_dsr(&step);
        let is_at_host = match &step {
            Step::Listed(_) => true,
            Step::Applied(service) => self.is_at_host(service),
            _ => false,
        };
        let store = &mut self.store;
        let concerned = match step {
            Step::Listed(list) => store.list_services(list),
            Step::Applied(service) => store.put_service(service).into_iter().collect(),
            Step::Deleted(service) => store.remove_service(&service.id).into_iter().collect(),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => Vec::new(),
        };
        if is_at_host {
            self.place_node_ports();
        }
        concerned
    }

    fn endpoint_slice(&mut self, step: Step<EndpointSlice>) -> Vec<Concerned> {
        let link = &mut self.links.endpoint_slices;
        follow("EndpointSlices", link, &self.monitor, &step);
        let store = &mut self.store;
        let mut concerned = match step {
            Step::Listed(list) => store.list_slices(list),
            Step::Applied(slice) => store.put_slice(slice),
            Step::Deleted(slice) => store.remove_slice(&slice.id).into_iter().collect(),
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => Vec::new(),
        };
        if concerned.iter().any(|one| Self::is_api_server(&one.id)) {
            concerned.extend(self.look_at_host_ports());
        }
        concerned
    }

    fn service_cidr(&mut self, step: Step<ServiceCidr>) -> Vec<Concerned> {
        let link = &mut self.links.service_cidrs;
        follow("ServiceCIDRs", link, &self.monitor, &step);
        match step {
            Step::Listed(list) => self.store.list_service_cidrs(list),
            Step::Applied(cidr) => self.store.put_service_cidr(cidr),
            Step::Deleted(cidr) => self.store.remove_service_cidr(&cidr.name),
            // What was known stays.
            Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {
                return Vec::new();
            }
        }
        let service_cidrs = self.store.service_cidrs();
        self.monitor
            .update(|state| state.service_cidrs = Some(service_cidrs.clone()));
        let concerned = self.look_from(NodeView {
            service_cidrs,
            ..self.view.clone()
        });
        self.place_node_ports();
        concerned
    }

    pub(super) fn first_lists_are_there(&self) {
        let counts = self.store.counts();
        info!(
            "all is listed: {} Services, {} EndpointSlices with {} endpoints",
            counts.services, counts.endpoint_slices, counts.endpoints
        );
    }
}

/// Takes note of the state of a watch, and reports it if that is new.
pub(super) fn follow<T>(name: &str, link: &mut Link, monitor: &ClusterMonitor, step: &Step<T>) {
    link.follow(name, step);
    heard(monitor, step);
}

/// Takes note of the time of the server's news.
pub(super) fn heard<T>(monitor: &ClusterMonitor, step: &Step<T>) {
    let now = SystemTime::now();
    match step {
        Step::Listed(_) => monitor.update(|state| {
            state.last_event = Some(now);
            state.last_relist = Some(now);
            state.relists += 1;
        }),
        Step::Applied(_) | Step::Deleted(_) => {
            monitor.update(|state| state.last_event = Some(now));
        }
        Step::Unreadable(_) | Step::Alive | Step::Lost(_) | Step::Absent(_) => {}
    }
}
