//! The contents of the status of a route.

use shunt_model::ServiceId;

use crate::{
    objects::{
        route::{ParentRef, Route},
        service::{Service, ServicePort},
    },
    routes::{
        attach::ports,
        backends::resolve,
        book::{Book, RouteKind},
        verdict::{Reason, Verdict},
    },
};

/// Conditions of a route as the child of one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Conditions<'r> {
    /// The parent.
    pub(crate) parent: &'r ParentRef,
    /// Verdict on whether the route is followed.
    pub(crate) accepted: Verdict,
    /// Verdict on whether all that it refers to is there.
    pub(crate) resolved: Verdict,
}

impl Book {
    /// Returns the conditions of the route, for each Service among its parents once. `services` gives those
    /// that are served.
    pub(crate) fn conditions<'r, 's>(
        &self,
        kind: RouteKind,
        route: &'r Route,
        services: impl Fn(&ServiceId) -> Option<&'s Service>,
    ) -> Vec<Conditions<'r>> {
        let resolved = resolve(kind, route, &self.grants, &services);
        let mut found: Vec<Conditions<'r>> = Vec::with_capacity(route.parents.len());
        for parent in &route.parents {
            if found.iter().any(|known| known.parent == parent) {
                continue;
            }
            let service = services(&parent.service(&route.id.namespace));
            let accepted = match ports(kind, route, parent, service) {
                Ok((service, ports)) => self.contest(route, service, &ports),
                Err(verdict) => verdict,
            };
            found.push(Conditions {
                parent,
                accepted,
                resolved: resolved.clone(),
            });
        }
        found
    }

    /// Returns the verdict on these ports: those that the route has, and those that an older one does.
    fn contest(&self, route: &Route, service: &Service, ports: &[&ServicePort]) -> Verdict {
        let (mut own, mut others) = (Vec::new(), Vec::new());
        let routes = self.routes_of(service);
        for port in ports {
            let number = port.port;
            let protocol = port.protocol;
            match protocol.and_then(|protocol| routes.get(&(number, protocol))) {
                Some((_, other)) if other.id != route.id => {
                    others.push(format!("{number} is that of {}, which is older", other.id));
                }
                Some(_) | None => own.push(number.to_string()),
            }
        }
        let others = others.join("; ");
        if own.is_empty() {
            return Verdict::new(Reason::Conflicted, format!("port {others}"));
        }
        let mut message = format!("it has port {} of {}", own.join(", "), service.id);
        if !others.is_empty() {
            message.push_str(&format!("; {others}"));
        }
        Verdict::new(Reason::Accepted, message)
    }
}
