//! A TCPRoute or UDPRoute of the Gateway API (gateway.networking.k8s.io/v1, or v1alpha2), which look
//! alike.

use std::{num::NonZeroU16, sync::Arc, time::SystemTime};

use serde::Deserialize;
use shunt_model::ServiceId;

use super::{metadata::Metadata, null};

/// The group of a parent that has none.
const GATEWAYS: &str = "gateway.networking.k8s.io";

/// The version of a route that has none.
const NEWEST: &str = "gateway.networking.k8s.io/v1";

/// A route, reduced to the fields that are read.
///
/// Routes that differ only in their versions are equal: a write of a status changes nothing for a service.
#[derive(Debug, Clone, Eq, Deserialize)]
#[serde(from = "RawRoute")]
pub(crate) struct Route {
    /// Its own identity.
    pub(crate) id: Arc<ServiceId>,
    /// Unique id, which no other object has or had.
    pub(crate) uid: Box<str>,
    /// Version, which another write of any field replaces.
    pub(crate) version: Box<str>,
    /// The group and version in which it was read.
    pub(crate) api_version: Box<str>,
    /// Time at which it was made, in whole seconds.
    pub(crate) created: SystemTime,
    /// Counts the changes of its `spec`.
    pub(crate) generation: i64,
    /// The Services that it is for. Parents of other kinds are the business of others.
    pub(crate) parents: Vec<ParentRef>,
    /// Destinations of each of its rules.
    pub(crate) rules: Vec<Vec<BackendRef>>,
}

impl PartialEq for Route {
    fn eq(&self, other: &Self) -> bool {
        let Self {
            id,
            uid,
            version: _,
            api_version,
            created,
            generation,
            parents,
            rules,
        } = self;
        *id == other.id
            && *uid == other.uid
            && *api_version == other.api_version
            && *created == other.created
            && *generation == other.generation
            && *parents == other.parents
            && *rules == other.rules
    }
}

/// A Service that a route is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ParentRef {
    /// The group as it is written: empty, or `core`.
    pub(crate) group: Box<str>,
    /// The namespace, if it is written; without one it is the route's.
    pub(crate) namespace: Option<Box<str>>,
    /// The name.
    pub(crate) name: Box<str>,
    /// The name of the one port that is meant.
    pub(crate) section: Option<Box<str>>,
    /// The number of the one port that is meant.
    pub(crate) port: Option<i64>,
}

/// Destination of a rule's connections.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BackendRef {
    /// The group; empty for a Service.
    pub(crate) group: Box<str>,
    /// The kind.
    pub(crate) kind: Box<str>,
    /// The namespace; `None`: the route's.
    pub(crate) namespace: Option<Box<str>>,
    /// The name.
    pub(crate) name: Box<str>,
    /// The Service's port.
    pub(crate) port: Option<NonZeroU16>,
    /// Its part of the sum of weights. The API allows up to 1,000,000.
    pub(crate) weight: u32,
}

impl ParentRef {
    /// The Service that a route of `namespace` means.
    pub(crate) fn service(&self, namespace: &str) -> ServiceId {
        ServiceId {
            namespace: self.namespace.as_deref().unwrap_or(namespace).into(),
            name: self.name.clone(),
        }
    }
}

/// Returns whether this is the group of Services: the API server calls it by an empty name, and users `core`.
pub(crate) fn is_core(group: &str) -> bool {
    matches!(group, "" | "core")
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawRoute {
    api_version: Option<Box<str>>,
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawSpec {
    #[serde(deserialize_with = "null::or_default")]
    parent_refs: Vec<RawParent>,
    #[serde(deserialize_with = "null::or_default")]
    rules: Vec<RawRule>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawParent {
    group: Option<Box<str>>,
    kind: Option<Box<str>>,
    namespace: Option<Box<str>>,
    #[serde(default)]
    name: Box<str>,
    section_name: Option<Box<str>>,
    port: Option<i64>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawRule {
    #[serde(default, deserialize_with = "null::or_default")]
    backend_refs: Vec<RawBackend>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawBackend {
    group: Option<Box<str>>,
    kind: Option<Box<str>>,
    namespace: Option<Box<str>>,
    #[serde(default)]
    name: Box<str>,
    port: Option<i64>,
    weight: Option<i64>,
}

impl From<RawRoute> for Route {
    fn from(raw: RawRoute) -> Self {
        let RawRoute {
            api_version,
            metadata,
            spec,
        } = raw;
        let RawSpec { parent_refs, rules } = spec;
        let rules = rules.into_iter().map(|rule| rule.backend_refs);
        Self {
            created: metadata.created(),
            generation: metadata.generation.unwrap_or(0),
            id: Arc::new(metadata.id()),
            uid: metadata.uid.unwrap_or_default(),
            version: metadata.resource_version.unwrap_or_default(),
            api_version: api_version.unwrap_or_else(|| NEWEST.into()),
            parents: parent_refs
                .into_iter()
                .filter_map(RawParent::service)
                .collect(),
            rules: rules
                .map(|backends| backends.into_iter().map(Into::into).collect())
                .collect(),
        }
    }
}

impl RawParent {
    /// The parent, if it is a Service.
    fn service(self) -> Option<ParentRef> {
        let Self {
            group,
            kind,
            namespace,
            name,
            section_name,
            port,
        } = self;
        let group = group.unwrap_or_else(|| GATEWAYS.into());
        (is_core(&group) && kind.as_deref() == Some("Service")).then_some(ParentRef {
            group,
            namespace,
            name,
            section: section_name,
            port,
        })
    }
}

impl From<RawBackend> for BackendRef {
    fn from(raw: RawBackend) -> Self {
        let RawBackend {
            group,
            kind,
            namespace,
            name,
            port,
            weight,
        } = raw;
        let port = port.and_then(|port| u16::try_from(port).ok());
        let weight = weight.unwrap_or(1).max(0);
        Self {
            group: group.unwrap_or_default(),
            kind: kind.unwrap_or_else(|| "Service".into()),
            namespace,
            name,
            port: port.and_then(NonZeroU16::new),
            weight: u32::try_from(weight).unwrap_or(u32::MAX),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_write_of_the_status_alone_makes_no_other_route() {
        let route = |version: &str, generation: u64| -> Route {
            let metadata = json!({
                "namespace": "a", "name": "r", "resourceVersion": version, "generation": generation,
            });
            serde_json::from_value(json!({ "metadata": metadata })).unwrap()
        };
        assert_eq!(&*route("7", 1).version, "7");
        assert_eq!(route("7", 1), route("8", 1));
        assert_ne!(route("7", 1), route("8", 2));
    }

    #[test]
    fn what_is_not_said_has_its_meaning() {
        let route: Route = serde_json::from_value(json!({
            "metadata": { "namespace": "a", "name": "r", "generation": 3 },
            "spec": {
                "parentRefs": [
                    { "name": "gateway" },
                    { "kind": "Service", "name": "of-the-gateways" },
                    { "group": "", "kind": "Service", "name": "web", "port": 80 },
                    { "group": "core", "kind": "Service", "name": "web", "namespace": "b" },
                ],
                "rules": [{ "backendRefs": [
                    { "name": "one", "port": 8080 },
                    { "name": "two", "port": 70000, "weight": 5_000_000_000_i64 },
                    { "group": "x", "kind": "Y", "name": "three", "weight": -1 },
                ] }, {}],
            },
        }))
        .unwrap();
        assert_eq!(route.generation, 3);
        let parents = route.parents.iter();
        let parents: Vec<_> = parents
            .map(|parent| (parent.service("a").to_string(), parent.port))
            .collect();
        assert_eq!(
            parents,
            [("a/web".to_owned(), Some(80)), ("b/web".to_owned(), None)]
        );
        let [backends, none] = <[_; 2]>::try_from(route.rules).unwrap();
        assert_eq!(none, []);
        let shown = backends.iter().map(|backend| {
            let port = backend.port.map_or(0, NonZeroU16::get);
            format!(
                "{}.{} {port} {}",
                backend.group, backend.kind, backend.weight
            )
        });
        assert_eq!(
            shown.collect::<Vec<_>>(),
            [".Service 8080 1", ".Service 0 4294967295", "x.Y 0 0"]
        );
    }
}
