//! The endpoints behind what was asked about, and what the datapath uses them for.

use std::{net::IpAddr, num::NonZeroU16, sync::Arc};

use crate::{
    endpoint::Endpoint,
    lookup::{
        endpoint::{EndpointKey, EndpointView, Use, conditions},
        ports::{of_families, port_of},
        query::{Query, Subject},
        target::{ServiceTarget, Target, Who},
    },
    protocol::Protocol,
    render::{
        entry::Entry,
        frontend::{Backend, BackendSet, Frontend},
        state::State,
    },
    service::ServicePort,
    service_id::ServiceId,
    split::SplitTarget,
    workload::Workload,
};

/// The endpoints behind the targets that are in use, sorted by key, each key once.
pub(super) fn endpoints(state: &State, query: &Query, targets: &[Target]) -> Vec<EndpointView> {
    let mut found = Vec::new();
    for target in targets.iter().filter(|target| target.in_use) {
        let Who::Service(target) = &target.who else {
            continue;
        };
        let Some(entry) = state.services.get(&target.service) else {
            continue;
        };
        match &query.subject {
            Subject::Address(_) => at_frontend(state, entry, target, &mut found),
            Subject::Service(_) => of_port(state, entry, target, &mut found),
        }
    }
    found.sort_by_key(|endpoint| endpoint.key);
    found.dedup_by_key(|endpoint| endpoint.key);
    found
}

/// Finds the endpoints behind a frontend, all of its family.
fn at_frontend(
    state: &State,
    entry: &Entry,
    target: &ServiceTarget,
    found: &mut Vec<EndpointView>,
) {
    let key = target.frontend.as_ref().map(|frontend| frontend.key);
    let frontend = key.and_then(|key| Some((key, entry.frontend(key)?)));
    let Some((key, frontend)) = frontend else {
        return;
    };
    let Some(port) = port_of(&entry.service, frontend) else {
        return;
    };
    let behind = Behind {
        state,
        port: key.port,
        protocol: key.protocol,
    };
    let ipv4 = key.address.is_ipv4();
    behind.family(&entry.service.id, port, ipv4, Some(frontend), found);
}

/// Finds the endpoints of a service port, of both families, each as the first of its family's frontends has it.
fn of_port(state: &State, entry: &Entry, target: &ServiceTarget, found: &mut Vec<EndpointView>) {
    let service = &entry.service;
    let mut ports = service.ports.iter();
    let Some(port) = ports.find(|port| port.name == target.port_name) else {
        return;
    };
    let behind = Behind {
        state,
        port: port.port,
        protocol: port.protocol,
    };
    for ipv4 in [true, false] {
        let mut frontends = of_families(state, service, port);
        let frontend = frontends.find(|(key, _)| key.address.is_ipv4() == ipv4);
        let frontend = frontend.map(|(_, frontend)| frontend);
        behind.family(&service.id, port, ipv4, frontend, found);
    }
}

/// A port of the question's subject, which has endpoints behind it.
struct Behind<'a> {
    state: &'a State,
    /// In host byte order.
    port: u16,
    protocol: Protocol,
}

impl Behind<'_> {
    /// The endpoints of one family: those of the service port itself, and those that the frontend's
    /// sets have of others.
    fn family(
        &self,
        service: &Arc<ServiceId>,
        port: &ServicePort,
        ipv4: bool,
        frontend: Option<&Frontend>,
        found: &mut Vec<EndpointView>,
    ) {
        let of_family = |endpoint: &&Endpoint| endpoint.ip.is_ipv4() == ipv4;
        let own = port.endpoints.iter().filter(of_family);
        found.reserve(port.endpoints.len());
        found.extend(own.map(|endpoint| EndpointView {
            is_own: true,
            ..self.view(service, endpoint, frontend)
        }));
        // Without a split the sets have none but the port's own.
        let Some(frontend) = frontend.filter(|_| port.split.is_some()) else {
            return;
        };
        let here = frontend.this_node.as_ref();
        let sets = [Some(&frontend.backends), here.map(|here| &here.backends)];
        let backends = sets.into_iter().flatten().flat_map(|set| &set.backends);
        for backend in backends.filter(|backend| own_endpoint(port, backend).is_none()) {
            found.push(match self.elsewhere(port, backend) {
                Some((id, endpoint)) => self.view(id, endpoint, Some(frontend)),
                None => self.bare(service, backend, frontend),
            });
        }
    }

    /// The service that the port's split names and that has this backend as an endpoint, the first of
    /// them.
    fn elsewhere(
        &self,
        port: &ServicePort,
        backend: &Backend,
    ) -> Option<(&Arc<ServiceId>, &Endpoint)> {
        let mut named = port.split.iter().flat_map(|split| &split.backends);
        named.find_map(|part| {
            let SplitTarget::Service { id, port } = &part.target else {
                return None;
            };
            let service = &self.state.services.get(id)?.service;
            let mut ports = service.ports.iter();
            let port =
                ports.find(|known| (known.port, known.protocol) == (*port, self.protocol))?;
            Some((&service.id, own_endpoint(port, backend)?))
        })
    }

    fn view(
        &self,
        service: &Arc<ServiceId>,
        endpoint: &Endpoint,
        frontend: Option<&Frontend>,
    ) -> EndpointView {
        let (ready, serving, terminating) = conditions(endpoint);
        let &Endpoint {
            ip,
            port,
            weight,
            local,
            state: _,
            serving: _,
            scopes,
            hints: _,
            ref node,
            ref zone,
        } = endpoint;
        let (used, used_here) = uses(frontend, ip, port);
        EndpointView {
            key: self.key(ip, port),
            service: Arc::clone(service),
            is_own: false,
            ready,
            serving,
            terminating,
            local,
            node: node.clone(),
            zone: zone.clone(),
            weight,
            scopes,
            used,
            used_here,
            workload: self.workload(ip, port),
        }
    }

    /// A backend that is an endpoint of no service.
    fn bare(
        &self,
        service: &Arc<ServiceId>,
        backend: &Backend,
        frontend: &Frontend,
    ) -> EndpointView {
        let &Backend {
            ip,
            port,
            weight,
            local,
            scopes,
        } = backend;
        let (used, used_here) = uses(Some(frontend), ip, port);
        EndpointView {
            key: self.key(ip, port),
            service: Arc::clone(service),
            is_own: false,
            ready: weight > 0,
            serving: weight > 0,
            terminating: false,
            local,
            node: None,
            zone: None,
            weight,
            scopes,
            used,
            used_here,
            workload: self.workload(ip, port),
        }
    }

    const fn key(&self, ip: IpAddr, port: u16) -> EndpointKey {
        EndpointKey {
            frontend_port: self.port,
            protocol: self.protocol,
            ip,
            port,
        }
    }

    /// Returns the workload there: by its own address, or at its node's.
    fn workload(&self, ip: IpAddr, port: u16) -> Option<Arc<Workload>> {
        let residents = &self.state.residents;
        let (port, protocol) = (NonZeroU16::new(port), Some(self.protocol));
        let own = residents.at_own(ip, port, protocol).next();
        let found = own.or_else(|| residents.at_host_port(ip, port, protocol).next());
        found.cloned()
    }
}

/// The endpoint of the port at the backend's address. Endpoints are sorted by address and port.
fn own_endpoint<'a>(port: &'a ServicePort, backend: &Backend) -> Option<&'a Endpoint> {
    let wanted = (backend.ip, backend.port);
    let endpoints = &port.endpoints;
    let place = endpoints.binary_search_by_key(&wanted, |known| (known.ip, known.port));
    endpoints.get(place.ok()?)
}

/// Returns the use that a frontend makes of an endpoint, and its use for clients on this node.
fn uses(frontend: Option<&Frontend>, ip: IpAddr, port: u16) -> (Use, Use) {
    let Some(frontend) = frontend else {
        return (Use::None, Use::None);
    };
    let used = use_in(&frontend.backends, ip, port);
    let here = frontend.this_node.as_ref();
    let here = here.map_or(used, |here| use_in(&here.backends, ip, port));
    (used, here)
}

/// Returns the use that a set makes of an endpoint. Backends are sorted by address and port.
fn use_in(set: &BackendSet, ip: IpAddr, port: u16) -> Use {
    let backends = &set.backends;
    let place = backends.binary_search_by_key(&(ip, port), |known| (known.ip, known.port));
    match place.ok().and_then(|place| backends.get(place)) {
        Some(backend) if backend.weight > 0 => Use::New,
        Some(_) => Use::Open,
        None => Use::None,
    }
}
