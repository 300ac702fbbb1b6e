//! Answers for clients, in the form of Consul's agent.

use std::{collections::BTreeMap, sync::LazyLock};

use hyper::StatusCode;
use serde::Serialize;
use serde_json::{Map, Value, json};
use shunt_catalog::{
    Check, Index, LocalNode, Proxy, Registered, Registry, Service, TaggedAddress, Weights,
};
use shunt_http::{Answer, answer, text};

use crate::local_api::request::Parameters;

/// The datacenter that this host is in, where a client wants to know of one.
pub(super) const DATACENTER: &str = "local";

/// The port where Consul's agents gossip. Here it has no listener.
const GOSSIP_PORT: u16 = 8301;

/// A service.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownService<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    pub(super) kind: &'a str,
    #[serde(rename = "ID")]
    pub(super) id: &'a str,
    pub(super) service: &'a str,
    pub(super) tags: &'a [String],
    pub(super) meta: &'a BTreeMap<String, String>,
    pub(super) port: i64,
    pub(super) address: &'a str,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) tagged_addresses: BTreeMap<&'a str, ShownAddress<'a>>,
    pub(super) weights: ShownWeights,
    pub(super) enable_tag_override: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) content_hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) proxy: Option<ShownProxy<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) connect: Option<ShownConnect>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) create_index: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) modify_index: Option<u64>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownAddress<'a> {
    address: &'a str,
    port: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownWeights {
    passing: i64,
    warning: i64,
}

#[derive(Debug, Default, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownConnect {
    #[serde(skip_serializing_if = "is_off")]
    native: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownProxy<'a> {
    #[serde(skip_serializing_if = "str::is_empty")]
    destination_service_name: &'a str,
    #[serde(rename = "DestinationServiceID", skip_serializing_if = "str::is_empty")]
    destination_service_id: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    local_service_address: &'a str,
    #[serde(skip_serializing_if = "is_zero")]
    local_service_port: i64,
    #[serde(skip_serializing_if = "Map::is_empty")]
    config: &'a Map<String, Value>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    upstreams: &'a [Map<String, Value>],
    mesh_gateway: &'a Map<String, Value>,
    expose: &'a Map<String, Value>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_zero(number: &i64) -> bool {
    *number == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde asks")]
const fn is_off(switch: &bool) -> bool {
    !*switch
}

/// Proxy that is shown for a service that is none.
static NO_PROXY: LazyLock<Proxy> = LazyLock::new(Proxy::default);

impl<'a> ShownService<'a> {
    /// Without its hash, as in lists.
    pub(super) fn of(service: &'a Service) -> Self {
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
            enable_tag_override,
            is_native,
            proxy,
        } = service;
        let tagged = tagged_addresses.iter().map(|(tag, tagged)| {
            let TaggedAddress { address, port } = tagged;
            let port = *port;
            (tag.as_str(), ShownAddress { address, port })
        });
        Self {
            kind,
            id,
            service: name,
            tags,
            meta,
            port: *port,
            address,
            tagged_addresses: tagged.collect(),
            weights: ShownWeights {
                passing: *passing,
                warning: *warning,
            },
            enable_tag_override: *enable_tag_override,
            content_hash: None,
            proxy: proxy.as_ref().map(ShownProxy::of),
            connect: is_native.then_some(ShownConnect { native: true }),
            create_index: None,
            modify_index: None,
        }
    }

    /// As the servers show it, with when it came and changed.
    pub(super) fn in_catalog(service: &'a Service, index: Index) -> Self {
        let Index { created, modified } = index;
        let shown = Self::of(service);
        Self {
            proxy: Some(shown.proxy.unwrap_or_else(ShownProxy::none)),
            connect: Some(shown.connect.unwrap_or_default()),
            create_index: Some(created),
            modify_index: Some(modified),
            ..shown
        }
    }

    /// With its hash, as it is shown alone.
    pub(super) fn alone(registered: &'a Registered) -> Self {
        Self {
            content_hash: Some(registered.content_hash()),
            ..Self::of(&registered.service)
        }
    }
}

impl<'a> ShownProxy<'a> {
    /// That of a service that is none.
    pub(super) fn none() -> Self {
        Self::of(&NO_PROXY)
    }

    const fn of(proxy: &'a Proxy) -> Self {
        let Proxy {
            destination_service_name,
            destination_service_id,
            local_service_address,
            local_service_port,
            config,
            upstreams,
            mesh_gateway,
            expose,
        } = proxy;
        Self {
            destination_service_name: destination_service_name.as_str(),
            destination_service_id: destination_service_id.as_str(),
            local_service_address: local_service_address.as_str(),
            local_service_port: *local_service_port,
            config,
            upstreams: upstreams.as_slice(),
            mesh_gateway,
            expose,
        }
    }
}

/// A check.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct ShownCheck<'a> {
    node: &'a str,
    #[serde(rename = "CheckID")]
    check_id: &'a str,
    name: &'a str,
    status: &'static str,
    notes: &'a str,
    output: String,
    #[serde(rename = "ServiceID")]
    service_id: &'a str,
    service_name: &'a str,
    service_tags: &'a [String],
    #[serde(rename = "Type")]
    kind: &'static str,
    definition: Nothing,
    create_index: u64,
    modify_index: u64,
}

/// An object with nothing in it, which clients expect.
#[derive(Debug, Serialize)]
struct Nothing {}

impl<'a> ShownCheck<'a> {
    /// As it is now.
    pub(super) fn of(check: &'a Check, registry: &'a Registry, node: &'a LocalNode) -> Self {
        let service = registry.known().service(&check.service);
        let service = service.map(|it| &it.service);
        Self {
            node: &node.name,
            check_id: &check.id,
            name: &check.name,
            status: registry.status(check).name(),
            notes: &check.notes,
            output: registry.output(check),
            service_id: &check.service,
            service_name: service.map_or("", |it| &it.name),
            service_tags: service.map_or(&[], |it| &it.tags),
            kind: check.probe.name(),
            definition: Nothing {},
            create_index: 0,
            modify_index: 0,
        }
    }

    /// As the servers show it, with when it came and changed.
    pub(super) fn in_catalog(
        check: &'a Check,
        registry: &'a Registry,
        node: &'a LocalNode,
    ) -> Self {
        let shown = Self::of(check, registry, node);
        let indexes = registry.indexes();
        let Index { created, modified } = if check.service.is_empty() {
            indexes.of_node_checks()
        } else {
            indexes.of_name(shown.service_name)
        };
        Self {
            create_index: created,
            modify_index: modified,
            ..shown
        }
    }
}

/// All services by id.
pub(super) fn services(registry: &Registry) -> BTreeMap<&str, ShownService<'_>> {
    let services = registry.known().services().map(|it| &it.service);
    services
        .map(|service| (service.id.as_str(), ShownService::of(service)))
        .collect()
}

/// All checks by id.
pub(super) fn checks<'a>(
    registry: &'a Registry,
    node: &'a LocalNode,
) -> BTreeMap<&'a str, ShownCheck<'a>> {
    let checks = registry.known().checks();
    checks
        .map(|check| (check.id.as_str(), ShownCheck::of(check, registry, node)))
        .collect()
}

/// This host as a member of the cluster that it is by itself.
fn member(node: &LocalNode) -> Value {
    let address = node.address.map(|address| address.to_string());
    json!({
        "Name": node.name,
        "Addr": address.unwrap_or_default(),
        "Port": GOSSIP_PORT,
        "Tags": { "build": env!("CARGO_PKG_VERSION"), "dc": DATACENTER, "role": "shunt", "segment": "", "vsn": "2" },
        "Status": 1,
        "ProtocolMin": 1,
        "ProtocolMax": 5,
        "ProtocolCur": 2,
        "DelegateMin": 2,
        "DelegateMax": 5,
        "DelegateCur": 4,
    })
}

/// The members of the cluster of this host; of the one that spans datacenters, which there is not, none.
pub(super) fn members(node: &LocalNode, asked: &Parameters) -> Vec<Value> {
    let is_wide = asked.is_on("wan") && asked.get("wan") != Some("0");
    if is_wide {
        Vec::new()
    } else {
        vec![member(node)]
    }
}

/// The agent itself, in the little that clients read of it.
pub(super) fn agent(node: &LocalNode) -> Value {
    json!({
        "Config": {
            "Datacenter": DATACENTER,
            "NodeName": node.name,
            "Revision": "",
            "Server": false,
            "Version": env!("CARGO_PKG_VERSION"),
        },
        "Member": member(node),
        "Meta": {},
    })
}

/// As JSON, for people if they ask for it so.
pub(super) fn json(value: &impl Serialize, asked: &Parameters) -> Answer {
    let written = if asked.is_on("pretty") {
        serde_json::to_string_pretty(value)
    } else {
        serde_json::to_string(value)
    };
    match written {
        Ok(body) => answer(StatusCode::OK, "application/json", body),
        Err(error) => text(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}
