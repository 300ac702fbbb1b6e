//! How the ports of a Service are split.

use std::sync::Arc;

use shunt_model::{Protocol, Service as ModelService, Split, SplitFrontends, SplitMode};

use crate::source::kubernetes::{
    objects::{
        route::Route,
        service::{Service, ServicePort},
    },
    routes::{
        attach::ports,
        backends::backend,
        book::{Book, RouteKind},
    },
    translate::problem::Problem,
};

impl Book {
    /// Gives the ports of `model`, which is the translation of `service`, their splits, and `model` what proxies are
    /// told of requests. A route has a
    /// port before a ServiceProfile or a TrafficSplit has it, whichever is older: it names the port, or
    /// its protocol at least.
    pub(crate) fn split(
        &self,
        service: &Service,
        model: &mut ModelService,
        problems: &mut Vec<Problem>,
    ) {
        let mesh = self.mesh_split(&service.id, problems);
        model.profile = self.settings(&service.id);
        for port in &service.ports {
            let Some(protocol) = port.protocol else {
                continue;
            };
            let split = match self.route_of(service, port) {
                Some((kind, route)) => Some(self.by_route(kind, route)),
                None => mesh.map(|split| split.of_port(port.port)),
            };
            let mut models = model.ports.iter_mut();
            if let Some(split) = split
                && let Some(model) =
                    models.find(|model| (model.protocol, model.port) == (protocol, port.port))
            {
                model.split = Some(Arc::new(split));
            }
        }
    }

    /// The route that has this port: the oldest one that is for it.
    pub(super) fn route_of(
        &self,
        service: &Service,
        port: &ServicePort,
    ) -> Option<(RouteKind, &Route)> {
        let kind = match port.protocol? {
            Protocol::Tcp => RouteKind::Tcp,
            Protocol::Udp => RouteKind::Udp,
            Protocol::Sctp => return None,
        };
        let is_for_it = |route: &Route| {
            let own = &route.id.namespace;
            let mut parents = route.parents.iter();
            parents.any(|parent| {
                parent.service(own) == *service.id
                    && ports(kind, route, parent, Some(service))
                        .is_ok_and(|(_, ports)| ports.contains(&port))
            })
        };
        let mut routes = self.claims(kind).of(&service.id).iter();
        let found = routes.find(|route| is_for_it(route))?;
        Some((kind, found))
    }

    fn by_route(&self, kind: RouteKind, route: &Route) -> Split {
        let backends = route.rules.iter().flatten();
        Split {
            mode: SplitMode::Strict,
            frontends: SplitFrontends::ClusterIp,
            backends: backends
                .map(|reference| backend(kind, route, reference, &self.grants))
                .collect(),
        }
    }
}
