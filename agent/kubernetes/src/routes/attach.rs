//! The ports of a Service that a route is for.

use shunt_model::ServiceId;

use crate::{
    objects::{
        route::{ParentRef, Route},
        service::{Service, ServiceKind, ServicePort},
    },
    routes::{
        book::RouteKind,
        verdict::{Reason, Verdict},
    },
};

/// The Service that the route is for as the child of this parent, and those of its ports, at least
/// one; whether another route has them is not asked.
///
/// # Errors
///
/// Why it is for none.
pub(super) fn ports<'s>(
    kind: RouteKind,
    route: &Route,
    parent: &ParentRef,
    service: Option<&'s Service>,
) -> Result<(&'s Service, Vec<&'s ServicePort>), Verdict> {
    let id = parent.service(&route.id.namespace);
    if id.namespace != route.id.namespace {
        return Err(Verdict::new(
            Reason::NotAllowedByListeners,
            format!(
                "the Service {id} is in another namespace: routes are for Services of their own"
            ),
        ));
    }
    followed(route)?;
    let service = service.filter(|service| is_served(service));
    let Some(service) = service else {
        return Err(Verdict::new(Reason::NoMatchingParent, missing(&id)));
    };
    let ports = service.ports.iter().filter(|port| {
        port.protocol == Some(kind.protocol())
            && parent
                .port
                .is_none_or(|number| number == i64::from(port.port))
            && parent
                .section
                .as_ref()
                .is_none_or(|name| *name == port.name)
    });
    let ports: Vec<&ServicePort> = ports.collect();
    if ports.is_empty() {
        return Err(Verdict::new(
            Reason::NoMatchingParent,
            no_port(&id, kind, parent),
        ));
    }
    Ok((service, ports))
}

/// Checks that the route's rules can be followed, whatever it is for.
///
/// # Errors
///
/// Why they cannot.
pub(super) fn followed(route: &Route) -> Result<(), Verdict> {
    let [rule] = &*route.rules else {
        let count = route.rules.len();
        return Err(Verdict::new(
            Reason::UnsupportedValue,
            format!("the route has {count} rules, and exactly one can be followed"),
        ));
    };
    let weights = rule.iter().map(|backend| backend.weight);
    if sum(weights).is_none() {
        return Err(Verdict::new(
            Reason::UnsupportedValue,
            format!("the weights are more than {} together", u32::MAX),
        ));
    }
    Ok(())
}

/// The sum of weights, if it is one that a split can have.
pub(super) fn sum(mut weights: impl Iterator<Item = u32>) -> Option<u32> {
    weights.try_fold(0_u32, u32::checked_add)
}

/// Returns whether the Service has frontends at ClusterIPs.
pub(super) fn is_served(service: &Service) -> bool {
    service.kind != ServiceKind::ExternalName && !service.cluster_ips.is_empty()
}

/// Why a Service cannot be used that is none.
pub(super) fn missing(id: &ServiceId) -> String {
    format!("there is no Service {id} with a cluster IP that is served here")
}

fn no_port(id: &ServiceId, kind: RouteKind, parent: &ParentRef) -> String {
    let protocol = kind.protocol();
    let mut text = format!("the Service {id} has no {protocol} port");
    if let Some(number) = parent.port {
        text.push_str(&format!(" {number}"));
    }
    if let Some(name) = &parent.section {
        text.push_str(&format!(" called {name}"));
    }
    text
}
