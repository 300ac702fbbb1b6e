//! The addresses behind a destination.

use std::{collections::BTreeMap, net::SocketAddr};

use linkerd2_proxy_api::destination::WeightedAddr;
use shunt_model::{
    Answer, EndpointView, Phase, Protocol, ServiceId, ServiceTarget, TargetKind, TrafficPolicy, Who,
};

use crate::linkerd::{
    authority::{Destination, Name},
    client::Client,
    metadata::{Labels, bare, endpoint, namespace, of_workload, service_labels},
    settings::LinkerdSettings,
    usable::usable,
};

/// All addresses behind a destination. One that leads to another workload than before is the same
/// address with another content.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Addresses {
    /// True if there is something, with addresses or without.
    pub(super) exists: bool,
    /// Labels of all of them.
    pub(super) labels: Labels,
    pub(super) list: BTreeMap<SocketAddr, WeightedAddr>,
}

impl Addresses {
    /// Returns the addresses behind what was asked for, for this client.
    pub(super) fn of(
        destination: &Destination,
        answer: &Answer,
        client: &Client,
        settings: &LinkerdSettings,
    ) -> Self {
        match destination {
            Destination::Address { ip, port } => {
                at_address(SocketAddr::new(*ip, port.get()), answer, client, settings)
            }
            Destination::Name(name) => of_name(name, answer, client, settings),
        }
    }

    fn of_service(
        service: &ServiceId,
        list: impl Iterator<Item = (SocketAddr, WeightedAddr)>,
    ) -> Self {
        Self {
            exists: true,
            labels: service_labels(service),
            list: list.collect(),
        }
    }

    fn single(address: SocketAddr, found: WeightedAddr) -> Self {
        Self {
            exists: true,
            labels: Labels::new(),
            list: BTreeMap::from([(address, found)]),
        }
    }
}

/// Behind an address that is no service's is that address.
fn at_address(
    address: SocketAddr,
    answer: &Answer,
    client: &Client,
    settings: &LinkerdSettings,
) -> Addresses {
    let mut targets = answer.targets.iter();
    let Some(target) = targets.find(|target| target.in_use) else {
        return Addresses::single(address, bare(address));
    };
    match &target.who {
        Who::Service(own) => {
            let chosen = usable(
                own_endpoints(answer),
                policy(target.kind, own),
                client,
                settings.ipv6,
            );
            let chosen = chosen.into_iter();
            let list = chosen.map(|found| shown(found, found.key.port, settings));
            Addresses::of_service(&own.service, list)
        }
        // Nothing answers there, and the address is taken.
        Who::UndefinedPort { service, .. } => Addresses::of_service(service, [].into_iter()),
        Who::Workload(workload) if workload.phase != Phase::Pending => {
            let found = of_workload(workload, address, settings);
            Addresses {
                labels: Labels::from([namespace(&workload.id.namespace)]),
                ..Addresses::single(address, found)
            }
        }
        Who::Workload(_) | Who::Node { .. } | Who::HealthCheck { .. } => {
            Addresses::single(address, bare(address))
        }
    }
}

/// Behind a service's name are its endpoints; at a port that it does not declare, each of them at that
/// same port.
fn of_name(name: &Name, answer: &Answer, client: &Client, settings: &LinkerdSettings) -> Addresses {
    let Name {
        instance,
        service,
        port,
    } = name;
    if answer.targets.is_empty() {
        return Addresses::default();
    }
    let policy = answer.targets.iter().find_map(|target| match &target.who {
        Who::Service(own) => Some(own.internal_traffic_policy),
        _ => None,
    });
    let declared = declared(name, answer).is_some();
    let endpoints = own_endpoints(answer)
        .filter(|endpoint| !declared || is_at(endpoint, port.get()))
        .filter(|endpoint| {
            instance
                .as_deref()
                .is_none_or(|name| is_instance(endpoint, name, answer))
        });
    let chosen = usable(endpoints, policy.unwrap_or_default(), client, settings.ipv6);
    let list = chosen.into_iter().map(|found| {
        let port = if declared { found.key.port } else { port.get() };
        shown(found, port, settings)
    });
    Addresses::of_service(service, list)
}

/// The port of the service that the name is about, if it declares it.
pub(super) fn declared<'a>(
    name: &Name,
    answer: &'a Answer,
) -> Option<(TargetKind, &'a ServiceTarget)> {
    answer.targets.iter().find_map(|target| match &target.who {
        Who::Service(own) if own.port == name.port.get() && own.protocol == Protocol::Tcp => {
            Some((target.kind, own))
        }
        _ => None,
    })
}

/// The endpoints of the service itself: what its split names is another destination.
pub(super) fn own_endpoints(answer: &Answer) -> impl Iterator<Item = &EndpointView> {
    answer.endpoints.iter().filter(|endpoint| endpoint.is_own)
}

/// Returns whether the endpoint is behind this port of its service.
pub(super) const fn is_at(endpoint: &EndpointView, port: u16) -> bool {
    endpoint.key.frontend_port == port && matches!(endpoint.key.protocol, Protocol::Tcp)
}

/// Returns whether the endpoint has this hostname.
pub(super) fn is_instance(endpoint: &EndpointView, name: &str, answer: &Answer) -> bool {
    let mut targets = answer.targets.iter();
    let hostnames = targets.find_map(|target| match &target.who {
        Who::Service(own) => own.hostnames.as_ref(),
        _ => None,
    });
    let hostname = hostnames.and_then(|hostnames| hostnames.get(&endpoint.key.ip));
    hostname.is_some_and(|hostname| **hostname == *name)
}

/// The policy for clients inside the cluster: the external one is not for them.
const fn policy(kind: TargetKind, target: &ServiceTarget) -> TrafficPolicy {
    match kind {
        TargetKind::ClusterIp => target.internal_traffic_policy,
        _ => TrafficPolicy::Cluster,
    }
}

fn shown(
    found: &EndpointView,
    port: u16,
    settings: &LinkerdSettings,
) -> (SocketAddr, WeightedAddr) {
    let address = SocketAddr::new(found.key.ip, port);
    (address, endpoint(found, address, settings))
}
