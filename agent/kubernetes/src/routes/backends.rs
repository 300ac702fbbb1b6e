//! The destinations of a route's rule.

use std::{num::NonZeroU16, sync::Arc};

use shunt_model::{ServiceId, SplitBackend, SplitTarget};

use crate::{
    objects::{
        route::{BackendRef, Route, is_core},
        service::Service,
    },
    routes::{
        attach::{is_served, missing},
        book::RouteKind,
        grants::Grants,
        verdict::{Reason, Verdict},
    },
};

/// Returns the backend as a split has it. Whether there is such a Service is not checked here.
pub(super) fn backend(
    kind: RouteKind,
    route: &Route,
    backend: &BackendRef,
    grants: &Grants,
) -> SplitBackend {
    let target = match target(kind, route, backend, grants) {
        Ok((id, port)) => SplitTarget::Service {
            id: Arc::new(id),
            port: port.get(),
        },
        Err(Verdict { message, .. }) => SplitTarget::Invalid {
            reason: message.into(),
        },
    };
    SplitBackend {
        target,
        weight: backend.weight,
    }
}

/// Returns whether all that the route's rules refer to is there, or what is wrong: the first reason, and all
/// messages.
pub(super) fn resolve<'s>(
    kind: RouteKind,
    route: &Route,
    grants: &Grants,
    services: impl Fn(&ServiceId) -> Option<&'s Service>,
) -> Verdict {
    let backends = route.rules.iter().flatten();
    let problems = backends.filter_map(|backend| {
        let found = target(kind, route, backend, grants);
        let found = found.and_then(|(id, port)| exists(kind, &id, port, services(&id)));
        found.err()
    });
    let joined = problems.reduce(|mut all, problem| {
        if !all.message.contains(&problem.message) {
            all.message.push_str("; ");
            all.message.push_str(&problem.message);
        }
        all
    });
    joined.unwrap_or_else(|| Verdict::new(Reason::ResolvedRefs, "all backends are there"))
}

/// Returns the Service's port that the route may send to. The answer on Services of another namespace that has
/// not permitted it shows not even whether they are there.
fn target(
    kind: RouteKind,
    route: &Route,
    backend: &BackendRef,
    grants: &Grants,
) -> Result<(ServiceId, NonZeroU16), Verdict> {
    let BackendRef {
        group,
        kind: backend_kind,
        namespace,
        name,
        port,
        weight: _,
    } = backend;
    let own = &route.id.namespace;
    let id = ServiceId {
        namespace: namespace.as_ref().unwrap_or(own).clone(),
        name: name.clone(),
    };
    if !is_core(group) || **backend_kind != *"Service" {
        let group = if group.is_empty() { "core" } else { group };
        return Err(Verdict::new(
            Reason::InvalidKind,
            format!("the backend {id} is a {backend_kind} of {group}, and no Service"),
        ));
    }
    if id.namespace != *own && !grants.permit(kind.name(), own, &id) {
        return Err(Verdict::new(
            Reason::RefNotPermitted,
            format!("no ReferenceGrant there lets this route refer to the Service {id}"),
        ));
    }
    match port {
        Some(port) => Ok((id, *port)),
        None => Err(Verdict::new(
            Reason::BackendNotFound,
            format!("the backend {id} has no port, which a Service needs"),
        )),
    }
}

fn exists(
    kind: RouteKind,
    id: &ServiceId,
    port: NonZeroU16,
    service: Option<&Service>,
) -> Result<(), Verdict> {
    let not_found = |message| Err(Verdict::new(Reason::BackendNotFound, message));
    let Some(service) = service.filter(|service| is_served(service)) else {
        return not_found(missing(id));
    };
    let protocol = kind.protocol();
    let mut ports = service.ports.iter();
    if ports.any(|own| own.port == port.get() && own.protocol == Some(protocol)) {
        Ok(())
    } else {
        not_found(format!("the Service {id} has no {protocol} port {port}"))
    }
}
