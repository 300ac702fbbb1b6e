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
