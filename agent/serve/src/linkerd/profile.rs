//! The profile of a destination.

use std::{net::SocketAddr, time::Duration};

use linkerd2_proxy_api::destination::{DestinationProfile, RetryBudget, WeightedAddr};
use shunt_model::{Answer, Phase, ServiceTarget, TargetKind, Who, Workload};

use crate::linkerd::{
    addresses::{declared, is_at, is_instance, own_endpoints},
    authority::{Destination, Name},
    metadata::{bare, endpoint, namespace, of_workload, service_ref},
    overrides::overrides,
    requests::Requests,
    settings::LinkerdSettings,
};

/// The profile of what was asked for.
pub(super) fn profile(
    destination: &Destination,
    answer: &Answer,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    match destination {
        Destination::Address { ip, port } => {
            at_address(SocketAddr::new(*ip, port.get()), answer, settings)
        }
        Destination::Name(name) => match &name.instance {
            Some(instance) => of_instance(instance, name, answer, settings),
            None => of_name(name, answer, settings),
        },
    }
}

/// Returns the profile of an address: of the service that it leads to, or of what answers there itself.
fn at_address(
    address: SocketAddr,
    answer: &Answer,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let mut targets = answer.targets.iter();
    let Some(target) = targets.find(|target| target.in_use) else {
        return unknown(address.port(), settings);
    };
    match &target.who {
        Who::Service(own) => of_service(target.kind, own, settings),
        // Nothing is known of the port, and nothing answers there.
        Who::UndefinedPort { .. } => DestinationProfile::default(),
        Who::Workload(workload) if workload.phase != Phase::Pending => of_endpoint(
            of_workload(workload, address),
            Some(workload),
            address,
            settings,
        ),
        Who::Workload(_) | Who::Node { .. } | Who::HealthCheck { .. } => {
            of_endpoint(bare(address), None, address, settings)
        }
    }
}

fn of_name(name: &Name, answer: &Answer, settings: &LinkerdSettings) -> DestinationProfile {
    match declared(name, answer) {
        Some((kind, own)) => of_service(kind, own, settings),
        None if answer.targets.is_empty() => unknown(name.port.get(), settings),
        None => DestinationProfile::default(),
    }
}

/// The pod of that name among the service's endpoints, whatever it can do at present. Without one
/// nothing is known.
fn of_instance(
    instance: &str,
    name: &Name,
    answer: &Answer,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let port = name.port.get();
    let is_declared = declared(name, answer).is_some();
    // They are sorted: of two families the first is IPv4.
    let found = own_endpoints(answer).find(|endpoint| {
        (!is_declared || is_at(endpoint, port)) && is_instance(endpoint, instance)
    });
    let Some(found) = found else {
        return unknown(port, settings);
    };
    let port = if is_declared { found.key.port } else { port };
    let address = SocketAddr::new(found.key.ip, port);
    let workload = found.workload.as_deref();
    of_endpoint(endpoint(found, address), workload, address, settings)
}

fn of_service(
    kind: TargetKind,
    target: &ServiceTarget,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let ServiceTarget {
        service,
        port,
        opaque_ports,
        profile,
        ..
    } = target;
    let requests = profile.as_deref().map(Requests::read).unwrap_or_default();
    DestinationProfile {
        fully_qualified_name: settings.name_of(service),
        routes: requests.routes(),
        opaque_protocol: settings.is_opaque(opaque_ports.as_deref(), *port),
        dst_overrides: overrides(kind, target, settings),
        parent_ref: Some(service_ref(service, *port)),
        profile_ref: requests.reference(&service.namespace),
        retry_budget: Some(requests.retry_budget().unwrap_or_else(retry_budget)),
        ..DestinationProfile::default()
    }
}

/// Returns the profile of what answers at an address itself.
fn of_endpoint(
    mut found: WeightedAddr,
    workload: Option<&Workload>,
    address: SocketAddr,
    settings: &LinkerdSettings,
) -> DestinationProfile {
    let own = workload.map(|workload| namespace(&workload.id.namespace));
    found.metric_labels.extend(own);
    let said = workload.and_then(|workload| workload.opaque_ports.as_deref());
    DestinationProfile {
        opaque_protocol: settings.is_opaque(said, address.port()),
        retry_budget: Some(retry_budget()),
        endpoint: Some(found),
        ..DestinationProfile::default()
    }
}

/// An unknown address has neither a name nor an endpoint.
fn unknown(port: u16, settings: &LinkerdSettings) -> DestinationProfile {
    DestinationProfile {
        opaque_protocol: settings.is_opaque(None, port),
        retry_budget: Some(retry_budget()),
        ..DestinationProfile::default()
    }
}

/// Returns linkerd's own, for a profile without another.
fn retry_budget() -> RetryBudget {
    RetryBudget {
        retry_ratio: 0.2,
        min_retries_per_second: 10,
        ttl: Duration::from_secs(10).try_into().ok(),
    }
}
