//! Service ports and their frontends: from one to the other.

use crate::{
    render::{
        frontend::{Frontend, FrontendKey},
        state::State,
    },
    service::{Service, ServicePort},
};

/// The port of a service that a frontend of it stands for.
pub(super) fn port_of<'a>(service: &'a Service, frontend: &Frontend) -> Option<&'a ServicePort> {
    let name = &frontend.backends.port;
    let place = service.ports.binary_search_by(|port| port.name.cmp(name));
    service.ports.get(place.ok()?)
}

/// The frontends that a service port has, and not another service, at addresses of its own: those of
/// ClusterIPs first.
pub(super) fn own_frontends<'a>(
    state: &'a State,
    service: &'a Service,
    port: &'a ServicePort,
) -> impl Iterator<Item = (FrontendKey, &'a Frontend)> {
    let own = service.cluster_ips.iter();
    let own = own
        .chain(&service.load_balancer_ips)
        .chain(&service.external_ips);
    own.filter_map(|address| {
        let key = FrontendKey {
            address: *address,
            port: port.port,
            protocol: port.protocol,
        };
        let (_, holder) = state.claims.of(key).next()?;
        let has_it = **holder == *service.id;
        Some((key, state.frontend(key)?)).filter(|_| has_it)
    })
}

/// The first of these frontends in each address family that has one, IPv4 first.
pub(super) fn of_families<'a>(
    state: &'a State,
    service: &'a Service,
    port: &'a ServicePort,
) -> impl Iterator<Item = (FrontendKey, &'a Frontend)> {
    [true, false].into_iter().filter_map(move |ipv4| {
        let mut own = own_frontends(state, service, port);
        own.find(|(key, _)| key.address.is_ipv4() == ipv4)
    })
}

/// Returns the place in the frontend's split of the backend that takes all new connections of clients on this node, if
/// the rendering has chosen one.
pub(super) fn first_of(frontend: &Frontend) -> Option<usize> {
    let here = frontend.this_node.as_deref().unwrap_or(frontend);
    here.backends.split.as_ref()?.first
}
