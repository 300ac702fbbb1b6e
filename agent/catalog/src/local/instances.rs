//! Registrations as instances that frontends lead to.

use crate::{
    instances::{
        instance::{self, CheckStatus, Instance},
        query::{Query, QueryKind},
    },
    local::{
        definition::service::{TaggedAddress, Weights},
        registrar::LocalNode,
        state::{
            registry::Registry,
            service::{PROXY, Registered, Service},
            status::Status,
        },
    },
};

/// The instances that a query gives: those of a name, or those that speak Connect's protocol for it.
pub(super) fn instances(query: &Query, registry: &Registry, node: &LocalNode) -> Vec<Instance> {
    let services = registry.known().services().map(|it| &**it);
    let wanted = services.filter(|it| is_wanted(query, &it.service));
    wanted.map(|it| of(it, registry, node)).collect()
}

fn is_wanted(query: &Query, service: &Service) -> bool {
    let is_named = |name: &str| name.eq_ignore_ascii_case(&query.service);
    match query.kind {
        QueryKind::Service => return is_named(&service.name),
        QueryKind::Connect => {}
        // They lead to other datacenters, of which nothing is known here.
        QueryKind::MeshGateways => return false,
    }
    let proxy = service.proxy.as_ref().filter(|_| service.kind == PROXY);
    proxy.is_some_and(|proxy| is_named(&proxy.destination_service_name))
        || (service.is_native && is_named(&service.name))
}

fn of(registered: &Registered, registry: &Registry, node: &LocalNode) -> Instance {
    let Service {
        id,
        name,
        kind,
        tags,
        meta,
        address,
        tagged_addresses,
        port,
        weights: Weights { passing, warning },
        enable_tag_override: _,
        is_native,
        proxy,
    } = &registered.service;
    let tagged = tagged_addresses.iter().map(|(tag, tagged)| {
        let TaggedAddress { address, port } = tagged;
        let tagged = instance::TaggedAddress {
            address: address.as_str().into(),
            port: *port,
        };
        (tag.as_str().into(), tagged)
    });
    let checks = registry.known().checks_of(id).map(|check| instance::Check {
        id: check.id.as_str().into(),
        status: match registry.status(check) {
            Status::Passing => CheckStatus::Passing,
            Status::Warning => CheckStatus::Warning,
            Status::Critical => CheckStatus::Critical,
        },
    });
    let boxed = |(key, value): (&String, &String)| (key.as_str().into(), value.as_str().into());
    let address_of_node = node.address.map(|address| address.to_string());
    Instance {
        node: node.name.as_str().into(),
        node_address: address_of_node.unwrap_or_default().into(),
        kind: kind.as_str().into(),
        service: name.as_str().into(),
        id: id.as_str().into(),
        tags: tags.iter().map(|tag| tag.as_str().into()).collect(),
        meta: meta.iter().map(boxed).collect(),
        address: address.as_str().into(),
        tagged_addresses: tagged.collect(),
        port: *port,
        weights: Some(instance::Weights {
            passing: *passing,
            warning: *warning,
        }),
        destination: proxy
            .as_ref()
            .map(|proxy| proxy.destination_service_name.as_str().into()),
        is_connect_native: *is_native,
        checks: checks.collect(),
        ..Instance::default()
    }
}
