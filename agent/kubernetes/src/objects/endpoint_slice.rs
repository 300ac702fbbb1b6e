//! An EndpointSlice (discovery.k8s.io/v1).

use std::{net::IpAddr, num::NonZeroU16, sync::Arc, time::SystemTime};

use serde::Deserialize;
use shunt_model::{Protocol, ServiceId};

use super::{
    address::{self, Address},
    lenient::{self, Lenient},
    metadata::Metadata,
    names::SharedName,
    null,
    service::protocol,
};

/// A slice of a service's endpoints, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawSlice")]
pub struct EndpointSlice {
    /// Its own identity.
    pub id: ServiceId,
    /// The service that it belongs to, whether there is one or not; `None`: to none.
    pub service: Option<ServiceId>,
    /// The ports of each endpoint.
    pub ports: Box<[SlicePort]>,
    /// The endpoints, in their order; those whose address cannot be read, or is of another family,
    /// are not among them.
    pub endpoints: Box<[SliceEndpoint]>,
    /// The hostnames of the endpoints that have one.
    pub hostnames: Box<[(IpAddr, Box<str>)]>,
    /// Texts that stand in place of addresses.
    pub bad_addresses: Box<[Box<str>]>,
    /// Errors of ports that are not among them.
    pub bad_ports: Box<[Box<str>]>,
    /// Time of the event that led to its last change, by its controller.
    pub triggered: Option<SystemTime>,
}

/// A port of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlicePort {
    /// The name of the service port that it stands for.
    pub name: Box<str>,
    /// The protocol.
    pub protocol: Protocol,
    /// The number on the endpoints' addresses.
    pub port: NonZeroU16,
}

/// An endpoint of a slice. There are hundreds of thousands of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SliceEndpoint {
    /// Its address.
    pub ip: IpAddr,
    /// Its conditions.
    pub conditions: Conditions,
    /// The node that it runs on.
    pub node: Option<Arc<str>>,
    /// The zone that it runs in.
    pub zone: Option<Arc<str>>,
    /// Clients for which it is meant, if there are hints.
    pub hints: Option<Arc<Hints>>,
}

/// Conditions of an endpoint, with the defaults of those that are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conditions {
    /// It takes connections.
    pub ready: bool,
    /// It answers, whether it is terminating or not.
    pub serving: bool,
    /// It is on its way out.
    pub terminating: bool,
}

/// For whom an endpoint is meant; sorted, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Hints {
    /// Clients in these zones.
    pub zones: Box<[Box<str>]>,
    /// Clients on these nodes.
    pub nodes: Box<[Box<str>]>,
}

impl Hints {
    /// Returns whether it is meant for clients of this zone.
    pub fn has_zone(&self, zone: &str) -> bool {
        self.zones.binary_search_by(|own| (**own).cmp(zone)).is_ok()
    }

    /// Returns whether it is meant for clients of this node.
    pub fn has_node(&self, node: &str) -> bool {
        self.nodes.binary_search_by(|own| (**own).cmp(node)).is_ok()
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawSlice {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    address_type: Box<str>,
    #[serde(default, deserialize_with = "null::or_default")]
    endpoints: Vec<RawEndpoint>,
    #[serde(default, deserialize_with = "lenient::list")]
    ports: Lenient<RawPort>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEndpoint {
    /// Of the others nothing is known that counts.
    #[serde(
        default,
        rename = "addresses",
        deserialize_with = "address::first_of_list"
    )]
    address: Option<Address>,
    #[serde(default)]
    conditions: Option<RawConditions>,
    #[serde(default)]
    node_name: Option<SharedName>,
    #[serde(default)]
    zone: Option<SharedName>,
    #[serde(default)]
    hostname: Option<Box<str>>,
    /// Few have any, and all are moved while a list of them grows.
    #[serde(default)]
    hints: Option<Box<RawHints>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawConditions {
    ready: Option<bool>,
    serving: Option<bool>,
    terminating: Option<bool>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawHints {
    #[serde(default, deserialize_with = "null::or_default")]
    for_zones: Vec<RawHint>,
    #[serde(default, deserialize_with = "null::or_default")]
    for_nodes: Vec<RawHint>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawHint {
    #[serde(default)]
    name: Box<str>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawPort {
    name: Option<Box<str>>,
    #[serde(default)]
    protocol: Option<Box<str>>,
    #[serde(default)]
    port: Option<u16>,
}

impl From<RawSlice> for EndpointSlice {
    fn from(raw: RawSlice) -> Self {
        let RawSlice {
            metadata,
            address_type,
            endpoints,
            ports,
        } = raw;
        let triggered = metadata.triggered();
        let Metadata {
            namespace,
            name,
            labels,
            ..
        } = metadata;
        let (namespace, name) = (namespace.unwrap_or_default(), name.unwrap_or_default());
        let service = labels.and_then(|labels| labels.service_name);
        let service = service.filter(|name| !name.is_empty());
        let wants = |ip: &IpAddr| match &*address_type {
            "IPv4" => ip.is_ipv4(),
            "IPv6" => ip.is_ipv6(),
            _ => false,
        };
        let mut bad_addresses = Vec::new();
        let mut hostnames = Vec::new();
        let mut found = Vec::with_capacity(endpoints.len());
        for endpoint in endpoints {
            let RawEndpoint {
                address,
                conditions,
                node_name,
                zone,
                hostname,
                hints,
            } = endpoint;
            match address {
                Some(Address::Ip(ip)) if wants(&ip) => {
                    let hostname = hostname.filter(|hostname| !hostname.is_empty());
                    hostnames.extend(hostname.map(|hostname| (ip, hostname)));
                    found.push(SliceEndpoint {
                        ip,
                        conditions: conditions.unwrap_or_default().into(),
                        node: node_name.map(|SharedName(name)| name),
                        zone: zone.map(|SharedName(name)| name),
                        hints: hints.and_then(|hints| hints.shared()),
                    });
                }
                Some(Address::Bad(text)) if address_type.starts_with("IPv") => {
                    bad_addresses.push(text);
                }
                _ => {}
            }
        }
        Self {
            service: service
                .filter(|_| !namespace.is_empty() && !name.is_empty())
                .map(|service| ServiceId {
                    namespace: namespace.clone(),
                    name: service,
                }),
            id: ServiceId { namespace, name },
            ports: ports
                .elements
                .into_iter()
                .filter_map(RawPort::known)
                .collect(),
            endpoints: found.into(),
            hostnames: hostnames.into(),
            bad_addresses: bad_addresses.into(),
            bad_ports: ports.bad.into(),
            triggered,
        }
    }
}

impl RawPort {
    /// The port, if it has a name, perhaps an empty one, a number, and a protocol that there is.
    fn known(self) -> Option<SlicePort> {
        let Self {
            name,
            protocol: given,
            port,
        } = self;
        Some(SlicePort {
            name: name?,
            protocol: protocol(given.as_deref())?,
            port: NonZeroU16::new(port?)?,
        })
    }
}

impl From<RawConditions> for Conditions {
    /// A missing condition is `true`, but `terminating`.
    fn from(raw: RawConditions) -> Self {
        let RawConditions {
            ready,
            serving,
            terminating,
        } = raw;
        Self {
            ready: ready.unwrap_or(true),
            serving: serving.unwrap_or(true),
            terminating: terminating.unwrap_or(false),
        }
    }
}

impl RawHints {
    /// The hints; empty ones are none.
    fn shared(self) -> Option<Arc<Hints>> {
        let names = |hints: Vec<RawHint>| {
            let mut names: Vec<_> = hints.into_iter().map(|hint| hint.name).collect();
            names.sort();
            names.dedup();
            names.into_boxed_slice()
        };
        let hints = Hints {
            zones: names(self.for_zones),
            nodes: names(self.for_nodes),
        };
        (hints != Hints::default()).then(|| Arc::new(hints))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_endpoint_is_small() {
        assert!(size_of::<SliceEndpoint>() <= 64);
    }

    #[test]
    fn what_is_not_said_has_its_meaning() {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "web-1",
                          "labels": { "kubernetes.io/service-name": "web", "other": "x" } },
            "addressType": "IPv4",
            "endpoints": [
                { "addresses": ["10.0.0.1", "10.0.0.9"], "hostname": "web-0" },
                { "addresses": ["10.0.0.2"], "hostname": "",
                  "conditions": { "ready": false, "serving": null } },
                { "addresses": ["10.0.0.3"], "conditions": { "terminating": true }, "hints": {} },
                { "addresses": [] },
                { "addresses": null },
                { "addresses": ["fd00::1"] },
                { "addresses": ["nonsense"] },
            ],
            "ports": [
                { "name": "", "port": 80 },
                { "name": "dns", "port": 53, "protocol": "UDP" },
                { "name": null, "port": 81 },
                { "port": 82 },
                { "name": "none", "port": null },
                { "name": "zero", "port": 0 },
                { "name": "other", "port": 1, "protocol": "QUIC" },
                { "name": "negative", "port": -1 },
                { "name": "large", "port": 70000 },
                { "name": "text", "port": "http" },
                7,
            ],
        }))
        .unwrap();
        let conditions = |ready, serving, terminating| Conditions {
            ready,
            serving,
            terminating,
        };
        let endpoint = |last, conditions| SliceEndpoint {
            ip: [10, 0, 0, last].into(),
            conditions,
            node: None,
            zone: None,
            hints: None,
        };
        let port = |name: &str, protocol, port| SlicePort {
            name: name.into(),
            protocol,
            port: NonZeroU16::new(port).unwrap(),
        };
        let expected = EndpointSlice {
            id: ServiceId::new("a", "web-1"),
            service: Some(ServiceId::new("a", "web")),
            ports: [port("", Protocol::Tcp, 80), port("dns", Protocol::Udp, 53)].into(),
            endpoints: [
                endpoint(1, conditions(true, true, false)),
                endpoint(2, conditions(false, true, false)),
                endpoint(3, conditions(true, true, true)),
            ]
            .into(),
            hostnames: [([10, 0, 0, 1].into(), "web-0".into())].into(),
            bad_addresses: ["nonsense".into()].into(),
            bad_ports: [
                "[7]: invalid value: integer `-1`, expected u16".into(),
                "[8]: invalid value: integer `70000`, expected u16".into(),
                "[9]: invalid type: string \"http\", expected u16".into(),
                "[10]: invalid type: integer `7`, expected struct RawPort".into(),
            ]
            .into(),
            triggered: None,
        };
        assert_eq!(slice, expected);
    }

    #[test]
    fn lists_may_be_null_and_other_kinds_of_addresses_are_left_out() {
        let slice: EndpointSlice = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "web-1" },
            "addressType": "FQDN",
            "endpoints": [{ "addresses": ["host.example"] }],
            "ports": null,
        }))
        .unwrap();
        assert_eq!((slice.service, slice.endpoints.len()), (None, 0));
        assert_eq!((slice.ports.len(), slice.bad_addresses.len()), (0, 0));
        let empty = json!({ "addressType": "IPv4", "endpoints": null });
        let slice: EndpointSlice = serde_json::from_value(empty).unwrap();
        assert_eq!(slice.endpoints.len(), 0);
    }
}
