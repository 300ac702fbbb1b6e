//! Consul's JSON, read with leniency: a field that is not needed here may be anything, and one
//! instance that cannot be read takes nothing away from the others.

use std::collections::BTreeMap;

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Deserializer};
use serde_json::Value;

use crate::{
    consul::http::error::AskError,
    instances::{
        instance::{Check, CheckStatus, Instance, Meta, TaggedAddress, Weights},
        query::{Query, QueryKind},
        tier::Datacenter,
    },
};

/// Characters to encode in a part of a path: all but the unreserved ones (RFC 3986 section 2.3).
const PART: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'.')
    .remove(b'_')
    .remove(b'~');

/// Text as a part of a path.
pub(super) fn part(text: &str) -> String {
    utf8_percent_encode(text, PART).to_string()
}

/// Returns the path of the instances of a query.
pub(super) fn path(query: &Query) -> String {
    let Query {
        service,
        kind,
        datacenter,
        filter,
    } = query;
    let path = match kind {
        QueryKind::Service => format!("/v1/health/service/{}", part(service)),
        QueryKind::Connect => format!("/v1/health/connect/{}", part(service)),
        QueryKind::MeshGateways => "/v1/internal/federation-states/mesh-gateways".to_owned(),
    };
    let path = within(&path, datacenter);
    match filter {
        Some(filter) => with(&path, &format!("filter={}", part(filter))),
        None => path,
    }
}

/// A path, asked of a datacenter.
pub(super) fn within(path: &str, datacenter: &Datacenter) -> String {
    match datacenter {
        Datacenter::Own => path.to_owned(),
        Datacenter::Other(name) => with(path, &format!("dc={}", part(name))),
    }
}

/// A path with one more parameter.
pub(super) fn with(path: &str, parameter: &str) -> String {
    let sign = if path.contains('?') { '&' } else { '?' };
    format!("{path}{sign}{parameter}")
}

/// An answer, read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Instances {
    /// The instances.
    pub(super) instances: Vec<Instance>,
    /// Why others are none.
    pub(super) unreadable: Vec<String>,
}

/// Returns the instances of a query's answer.
///
/// # Errors
///
/// It is neither a list nor, of mesh gateways, a list for each datacenter.
pub(super) fn found(kind: QueryKind, body: &[u8]) -> Result<Instances, AskError> {
    match kind {
        QueryKind::Service | QueryKind::Connect => instances(body),
        QueryKind::MeshGateways => gateways(body),
    }
}

/// The gateways of all datacenters.
fn gateways(body: &[u8]) -> Result<Instances, AskError> {
    let datacenters: Option<BTreeMap<Box<str>, Option<Vec<Value>>>> = read(body)?;
    let mut all = Instances {
        instances: Vec::new(),
        unreadable: Vec::new(),
    };
    for (datacenter, list) in datacenters.unwrap_or_default() {
        let Instances {
            instances,
            unreadable,
        } = one_by_one(list.unwrap_or_default());
        all.instances
            .extend(instances.into_iter().map(|instance| Instance {
                datacenter: datacenter.clone(),
                ..instance
            }));
        all.unreadable.extend(unreadable);
    }
    Ok(all)
}

/// The instances of an answer. Consul writes an empty one as `[]`: `null` is none.
fn instances(body: &[u8]) -> Result<Instances, AskError> {
    if let Ok(entries) = serde_json::from_slice::<Vec<Entry>>(body) {
        return Ok(Instances {
            instances: entries.into_iter().map(Entry::instance).collect(),
            unreadable: Vec::new(),
        });
    }
    Ok(one_by_one(read(body)?))
}

/// Reads each instance by itself.
fn one_by_one(values: Vec<Value>) -> Instances {
    let mut found = Instances {
        instances: Vec::new(),
        unreadable: Vec::new(),
    };
    for value in values {
        let name = |pointer| value.pointer(pointer).and_then(Value::as_str);
        let name = format!(
            "instance `{}` on node `{}`",
            name("/Service/ID").unwrap_or("?"),
            name("/Node/Node").unwrap_or("?")
        );
        match serde_json::from_value::<Entry>(value) {
            Ok(entry) => found.instances.push(entry.instance()),
            Err(error) => found
                .unreadable
                .push(format!("{name}: cannot be read: {error}")),
        }
    }
    found
}

/// Decodes an answer.
///
/// # Errors
///
/// It has another form.
pub(super) fn read<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, AskError> {
    serde_json::from_slice(body).map_err(|error| AskError::Unreadable(error.to_string()))
}

/// `null` is what Go makes of nothing.
pub(super) fn null<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Entry {
    node: NodeEntry,
    service: ServiceEntry,
    #[serde(default, deserialize_with = "null")]
    checks: Vec<CheckEntry>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct NodeEntry {
    node: Box<str>,
    #[serde(default, deserialize_with = "null")]
    address: Box<str>,
    #[serde(default, deserialize_with = "null")]
    datacenter: Box<str>,
    #[serde(default, deserialize_with = "null")]
    tagged_addresses: BTreeMap<Box<str>, Box<str>>,
    #[serde(default, deserialize_with = "null")]
    meta: Meta,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ServiceEntry {
    #[serde(default, deserialize_with = "null")]
    kind: Box<str>,
    #[serde(rename = "ID")]
    id: Box<str>,
    service: Box<str>,
    #[serde(default, deserialize_with = "null")]
    tags: Vec<Box<str>>,
    #[serde(default, deserialize_with = "null")]
    address: Box<str>,
    #[serde(default, deserialize_with = "null")]
    tagged_addresses: BTreeMap<Box<str>, TaggedEntry>,
    #[serde(default, deserialize_with = "null")]
    meta: Meta,
    #[serde(default, deserialize_with = "null")]
    port: i64,
    weights: Option<WeightsEntry>,
    proxy: Option<ProxyEntry>,
    connect: Option<ConnectEntry>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct TaggedEntry {
    #[serde(default, deserialize_with = "null")]
    address: Box<str>,
    #[serde(default, deserialize_with = "null")]
    port: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct WeightsEntry {
    #[serde(default, deserialize_with = "null")]
    passing: i64,
    #[serde(default, deserialize_with = "null")]
    warning: i64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ProxyEntry {
    #[serde(default)]
    destination_service_name: Option<Box<str>>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct ConnectEntry {
    #[serde(default, deserialize_with = "null")]
    native: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "PascalCase")]
struct CheckEntry {
    #[serde(default, rename = "CheckID", deserialize_with = "null")]
    id: Box<str>,
    #[serde(default, deserialize_with = "null")]
    status: Box<str>,
}

impl Entry {
    fn instance(self) -> Instance {
        let Self {
            node:
                NodeEntry {
                    node,
                    address: node_address,
                    datacenter,
                    tagged_addresses: node_tagged_addresses,
                    meta: node_meta,
                },
            service:
                ServiceEntry {
                    kind,
                    id,
                    service,
                    tags,
                    address,
                    tagged_addresses,
                    meta,
                    port,
                    weights,
                    proxy,
                    connect,
                },
            checks,
        } = self;
        let tagged = tagged_addresses.into_iter();
        let checks = checks.into_iter();
        Instance {
            node,
            datacenter,
            node_address,
            node_tagged_addresses,
            node_meta,
            kind,
            service,
            id,
            tags,
            meta,
            address,
            tagged_addresses: tagged
                .map(|(tag, TaggedEntry { address, port })| (tag, TaggedAddress { address, port }))
                .collect(),
            port,
            weights: weights.map(|WeightsEntry { passing, warning }| Weights { passing, warning }),
            destination: proxy.and_then(|proxy| proxy.destination_service_name),
            is_connect_native: connect.is_some_and(|connect| connect.native),
            checks: checks
                .map(|CheckEntry { id, status }| Check {
                    id,
                    status: CheckStatus::of_name(&status),
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_encoded_in_paths() {
        let query = |service: &str, kind| Query {
            service: service.into(),
            kind,
            datacenter: Datacenter::Own,
            filter: None,
        };
        for (service, kind, expected) in [
            ("web", QueryKind::Service, "/v1/health/service/web"),
            ("web", QueryKind::Connect, "/v1/health/connect/web"),
            (
                "a/b c.ü?",
                QueryKind::Service,
                "/v1/health/service/a%2Fb%20c.%C3%BC%3F",
            ),
        ] {
            assert_eq!(path(&query(service, kind)), expected);
        }
        let far = Query {
            datacenter: Datacenter::Other("dc2".into()),
            filter: Some("Service.Meta.v == 2".into()),
            ..query("web", QueryKind::Service)
        };
        let expected = "/v1/health/service/web?dc=dc2&filter=Service.Meta.v%20%3D%3D%202";
        assert_eq!(path(&far), expected);
        assert_eq!(
            with(&path(&far), "stale"),
            format!("{expected}&stale"),
            "one question mark"
        );
    }

    #[test]
    fn mesh_gateways_are_those_of_all_datacenters() {
        let gateway = r#"{"Node":{"Node":"g1","Address":"10.2.0.1"},
            "Service":{"Kind":"mesh-gateway","ID":"g","Service":"gate","Port":443},"Checks":[]}"#;
        let body = format!(r#"{{"dc2":[{gateway}],"dc3":[{gateway},{{}}],"dc4":null}}"#);
        let all = found(QueryKind::MeshGateways, body.as_bytes()).unwrap();
        let datacenters: Vec<&str> = all.instances.iter().map(|it| &*it.datacenter).collect();
        assert_eq!(datacenters, ["dc2", "dc3"]);
        assert_eq!(all.unreadable.len(), 1);
        assert_eq!(found(QueryKind::MeshGateways, b"{}").unwrap().instances, []);
        found(QueryKind::MeshGateways, b"[]").unwrap_err();
    }

    #[test]
    fn nothing_is_null_and_one_bad_instance_is_not_the_answer() {
        let good = r#"{"Node":{"Node":"n1","Address":"10.1.0.1","Datacenter":"dc1","TaggedAddresses":null,"Meta":null,"New":[]},
            "Service":{"ID":"w","Service":"web","Tags":null,"Port":-1,"Address":"","Weights":{"Passing":5},"Meta":null,
            "TaggedAddresses":{"virtual":{"Address":"240.0.0.1","Port":0}},"Connect":{"Native":true},"Proxy":{"DestinationServiceName":"api"}},
            "Checks":[{"CheckID":"c","Status":"odd","Output":"x"},{"Status":null}]}"#;
        let bad = r#"{"Node":{"Node":"n2"},"Service":{"ID":"w2","Service":"web","Port":"80"}}"#;
        let found = instances(format!("[{good},{bad}]").as_bytes()).unwrap();
        assert_eq!(found.unreadable.len(), 1);
        assert!(found.unreadable[0].starts_with("instance `w2` on node `n2`: cannot be read"));
        let [web] = &found.instances[..] else {
            panic!("{found:#?}")
        };
        assert_eq!((web.port, &*web.node_address), (-1, "10.1.0.1"));
        let weights = Weights {
            passing: 5,
            warning: 0,
        };
        assert_eq!(web.weights, Some(weights));
        assert_eq!(web.checks.len(), 2);
        assert!(
            web.checks
                .iter()
                .all(|check| check.status == CheckStatus::Critical)
        );
        assert!(web.is_connect_native);
        assert_eq!(web.destination.as_deref(), Some("api"));
        assert_eq!(instances(b"[]").unwrap().instances, []);
        for text in ["", "{}", "[", "<html>", "null"] {
            instances(text.as_bytes()).unwrap_err();
        }
    }
}
