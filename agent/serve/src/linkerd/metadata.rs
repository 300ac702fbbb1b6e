//! Metadata of endpoints and services in messages.

use std::{collections::HashMap, net::SocketAddr};

use linkerd2_proxy_api::{
    destination::WeightedAddr,
    meta::{Metadata, Resource, metadata::Kind},
};
use shunt_model::{EndpointView, ServiceId, Workload, WorkloadKind, WorkloadOwner};

use crate::linkerd::{hints::add_hints, settings::LinkerdSettings};

/// The weight of every endpoint: linkerd's proxies balance by load.
const WEIGHT: u32 = 10_000;

/// Labels of metrics.
pub(super) type Labels = HashMap<String, String>;

/// An address of which nothing else is known.
pub(super) fn bare(address: SocketAddr) -> WeightedAddr {
    WeightedAddr {
        addr: Some(address.into()),
        weight: WEIGHT,
        ..WeightedAddr::default()
    }
}

/// An endpoint of a service, at this address.
pub(super) fn endpoint(
    endpoint: &EndpointView,
    address: SocketAddr,
    settings: &LinkerdSettings,
) -> WeightedAddr {
    let EndpointView { zone, workload, .. } = endpoint;
    let mut found = match workload {
        Some(workload) => of_workload(workload, address, settings),
        None => bare(address),
    };
    let zone = zone.as_ref();
    found
        .metric_labels
        .extend(zone.map(|zone| ("zone".to_owned(), zone.to_string())));
    found
}

/// A workload, at this address.
pub(super) fn of_workload(
    workload: &Workload,
    address: SocketAddr,
    settings: &LinkerdSettings,
) -> WeightedAddr {
    let Workload { id, owner, .. } = workload;
    let (label, group, kind) = match id.kind {
        WorkloadKind::Pod => ("pod", "core", "Pod"),
        WorkloadKind::ExternalWorkload => (
            "external_workload",
            "workload.linkerd.io",
            "ExternalWorkload",
        ),
    };
    let owner = owner
        .as_ref()
        .map(|WorkloadOwner { kind, name }| (kind.to_lowercase(), name.to_string()));
    let own = (label.to_owned(), id.name.to_string());
    let found = WeightedAddr {
        metric_labels: owner.into_iter().chain([own]).collect(),
        resource_ref: Some(resource(Resource {
            group: group.to_owned(),
            kind: kind.to_owned(),
            name: id.name.to_string(),
            namespace: id.namespace.to_string(),
            ..Resource::default()
        })),
        ..bare(address)
    };
    add_hints(found, workload, address.port(), settings)
}

/// The label of a namespace.
pub(super) fn namespace(namespace: &str) -> (String, String) {
    ("namespace".to_owned(), namespace.to_owned())
}

/// The labels of everything that is behind a service.
pub(super) fn service_labels(service: &ServiceId) -> Labels {
    let name = ("service".to_owned(), service.name.to_string());
    Labels::from([namespace(&service.namespace), name])
}

/// A reference to a ServiceProfile.
pub(super) fn profile_ref(namespace: &str, name: &str) -> Metadata {
    resource(Resource {
        group: "linkerd.io".to_owned(),
        kind: "ServiceProfile".to_owned(),
        name: name.to_owned(),
        namespace: namespace.to_owned(),
        ..Resource::default()
    })
}

/// A reference to a service's port.
pub(super) fn service_ref(service: &ServiceId, port: u16) -> Metadata {
    resource(Resource {
        group: "core".to_owned(),
        kind: "Service".to_owned(),
        name: service.name.to_string(),
        namespace: service.namespace.to_string(),
        section: String::new(),
        port: port.into(),
    })
}

const fn resource(resource: Resource) -> Metadata {
    Metadata {
        kind: Some(Kind::Resource(resource)),
    }
}
