//! Services and nodes as Consul's servers show them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::{Map, Value};
use shunt_catalog::{Index, LocalNode, Registered, Registry};

use crate::local_api::shown::{
    DATACENTER, ShownAddress, ShownCheck, ShownConnect, ShownProxy, ShownService, ShownWeights,
};

/// The names of a node's addresses, of one family and the other.
const TAGGED: [[&str; 4]; 2] = [
    ["lan", "wan", "lan_ipv4", "wan_ipv4"],
    ["lan", "wan", "lan_ipv6", "wan_ipv6"],
];

/// A node.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownNode<'a> {
    /// Clients take a node without one, as those have that are registered from outside.
    #[serde(rename = "ID")]
    id: &'static str,
    node: &'a str,
    address: String,
    datacenter: &'static str,
    tagged_addresses: BTreeMap<&'static str, String>,
    meta: Map<String, Value>,
    create_index: u64,
    modify_index: u64,
}

/// A service with its node and its checks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownInstance<'a> {
    node: ShownNode<'a>,
    service: ShownService<'a>,
    checks: Vec<ShownCheck<'a>>,
}

/// A node with its services, by id.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeServices<'a> {
    node: ShownNode<'a>,
    services: BTreeMap<&'a str, ShownService<'a>>,
}

/// A service with its node, in one.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct CatalogService<'a> {
    #[serde(rename = "ID")]
    id: &'static str,
    node: &'a str,
    address: String,
    datacenter: &'static str,
    tagged_addresses: BTreeMap<&'static str, String>,
    node_meta: Map<String, Value>,
    service_kind: &'a str,
    #[serde(rename = "ServiceID")]
    service_id: &'a str,
    service_name: &'a str,
    service_tags: &'a [String],
    service_address: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    service_tagged_addresses: BTreeMap<&'a str, ShownAddress<'a>>,
    service_weights: ShownWeights,
    service_meta: &'a BTreeMap<String, String>,
    service_port: i64,
    service_enable_tag_override: bool,
    service_proxy: ShownProxy<'a>,
    service_connect: ShownConnect,
    create_index: u64,
    modify_index: u64,
}

/// The node's address in words; empty if it has none.
pub(super) fn address(node: &LocalNode) -> String {
    let address = node.address.map(|address| address.to_string());
    address.unwrap_or_default()
}

impl<'a> ShownNode<'a> {
    /// This host.
    pub(super) fn of(registry: &Registry, node: &'a LocalNode) -> Self {
        let Index { created, modified } = registry.indexes().of_node();
        let tagged = node.address.into_iter().flat_map(|address| {
            let names = TAGGED[usize::from(address.is_ipv6())];
            names.map(|name| (name, address.to_string()))
        });
        Self {
            id: "",
            node: &node.name,
            address: address(node),
            datacenter: DATACENTER,
            tagged_addresses: tagged.collect(),
            meta: Map::new(),
            create_index: created,
            modify_index: modified,
        }
    }
}

impl<'a> ShownInstance<'a> {
    /// A service of this host.
    pub(super) fn of(
        registered: &'a Registered,
        registry: &'a Registry,
        node: &'a LocalNode,
    ) -> Self {
        let checks = registry.known().checks_of(&registered.service.id);
        let checks = checks.map(|check| ShownCheck::in_catalog(check, registry, node));
        Self {
            node: ShownNode::of(registry, node),
            service: in_catalog(registered, registry),
            checks: checks.collect(),
        }
    }
}

impl<'a> CatalogService<'a> {
    /// A service of this host.
    pub(super) fn of(
        registered: &'a Registered,
        registry: &'a Registry,
        node: &'a LocalNode,
    ) -> Self {
        let ShownNode {
            id,
            node,
            address,
            datacenter,
            tagged_addresses,
            meta,
            create_index: _,
            modify_index: _,
        } = ShownNode::of(registry, node);
        let Index { created, modified } = registry.indexes().of_name(&registered.service.name);
        let ShownService {
            kind,
            id: service_id,
            service,
            tags,
            meta: service_meta,
            port,
            address: service_address,
            tagged_addresses: service_tagged_addresses,
            weights,
            enable_tag_override,
            content_hash: _,
            proxy,
            connect,
            create_index: _,
            modify_index: _,
        } = in_catalog(registered, registry);
        Self {
            id,
            node,
            address,
            datacenter,
            tagged_addresses,
            node_meta: meta,
            service_kind: kind,
            service_id,
            service_name: service,
            service_tags: tags,
            service_address,
            service_tagged_addresses,
            service_weights: weights,
            service_meta,
            service_port: port,
            service_enable_tag_override: enable_tag_override,
            service_proxy: proxy.unwrap_or_else(ShownProxy::none),
            service_connect: connect.unwrap_or_default(),
            create_index: created,
            modify_index: modified,
        }
    }
}

fn in_catalog<'a>(registered: &'a Registered, registry: &Registry) -> ShownService<'a> {
    let index = registry.indexes().of_name(&registered.service.name);
    ShownService::in_catalog(&registered.service, index)
}

/// The names of all services, with the tags that any of theirs has.
pub(super) fn names(registry: &Registry) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut names = BTreeMap::<&str, BTreeSet<&str>>::new();
    for registered in registry.known().services() {
        let service = &registered.service;
        let tags = names.entry(&service.name).or_default();
        tags.extend(service.tags.iter().map(String::as_str));
    }
    names
}

/// This host with its services.
pub(super) fn node<'a>(registry: &'a Registry, node: &'a LocalNode) -> NodeServices<'a> {
    let services = registry.known().services();
    let services = services.map(|it| (it.service.id.as_str(), in_catalog(it, registry)));
    NodeServices {
        node: ShownNode::of(registry, node),
        services: services.collect(),
    }
}
