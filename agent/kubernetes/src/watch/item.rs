//! An object as the server has it. Each is read by itself: one that cannot be read takes no other along.

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::{objects::lenient::without_place, watch::kind::Kind};

/// The longest reason, in bytes.
const LONGEST_REASON: usize = 200;

/// Identity of an unreadable object, as far as it can be read.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Unreadable {
    /// Its name, behind its namespace's if it has one; `None`: that cannot be read either.
    pub(super) name: Option<String>,
    /// Its version.
    pub(super) version: Option<String>,
    /// The field, and the error in it.
    pub(super) reason: String,
}

#[derive(Deserialize)]
struct Object<'a> {
    #[serde(borrow)]
    metadata: Option<&'a RawValue>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Identity {
    namespace: Option<String>,
    name: Option<String>,
    resource_version: Option<String>,
}

/// Returns the name of an object, behind its namespace's if it has one.
pub(super) fn full_name(namespace: Option<&str>, name: &str) -> String {
    match namespace {
        Some(namespace) if !namespace.is_empty() => format!("{namespace}/{name}"),
        _ => name.to_owned(),
    }
}

/// Reads an object.
///
/// # Errors
///
/// If a field that counts is not as the kind has it.
pub(super) fn read<K: Kind>(text: &RawValue) -> Result<K::Raw, Unreadable> {
    let raw: K::Raw = decode::<K>(text)?;
    if K::metadata(&raw).name.is_none() {
        return Err(Unreadable {
            reason: "metadata.name: there is none".to_owned(),
            ..Unreadable::default()
        });
    }
    Ok(raw)
}

fn decode<K: Kind>(text: &RawValue) -> Result<K::Raw, Unreadable> {
    serde_json::from_str(text.get()).map_err(|error| {
        let Identity {
            namespace,
            name,
            resource_version,
        } = identity(text);
        Unreadable {
            name: name.map(|name| full_name(namespace.as_deref(), &name)),
            version: resource_version,
            // Slower, and it knows the field.
            reason: match read_with_path::<K>(text) {
                Err(found) => shortened(without_place(&found)),
                Ok(()) => shortened(without_place(&error)),
            },
        }
    })
}

/// Reads an object that is gone, of which the metadata is all that counts.
///
/// # Errors
///
/// If that cannot be read.
pub(super) fn read_deleted<K: Kind>(text: &RawValue) -> Result<K::Raw, Unreadable> {
    let of_metadata = |metadata: &str| {
        let text = RawValue::from_string(format!("{{\"metadata\":{metadata}}}"));
        read::<K>(text.as_deref().unwrap_or(RawValue::NULL))
    };
    let whole = metadata(text).map_or("{}", RawValue::get);
    of_metadata(whole).or_else(|error| {
        let Identity {
            namespace, name, ..
        } = identity(text);
        let Some(name) = name else {
            return Err(error);
        };
        of_metadata(&serde_json::json!({ "namespace": namespace, "name": name }).to_string())
    })
}

fn read_with_path<K: Kind>(
    text: &RawValue,
) -> Result<(), serde_path_to_error::Error<serde_json::Error>> {
    let reader = &mut serde_json::Deserializer::from_str(text.get());
    serde_path_to_error::deserialize::<_, K::Raw>(reader).map(drop)
}

/// Keeps the beginning of a long text: a tenant decides how long a path is, and a value that is quoted.
fn shortened(mut text: String) -> String {
    if text.len() > LONGEST_REASON {
        text.truncate(text.floor_char_boundary(LONGEST_REASON));
        text.push('…');
    }
    text
}

fn metadata(text: &RawValue) -> Option<&RawValue> {
    let object: Object<'_> = serde_json::from_str(text.get()).ok()?;
    object.metadata
}

fn identity(text: &RawValue) -> Identity {
    let identity = metadata(text).and_then(|text| serde_json::from_str(text.get()).ok());
    identity.unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        mutated::mutation::{odd_values, places},
        objects::{endpoint_slice::EndpointSlice, service::Service},
        watch::kind::{
            Definitions, EndpointSlices, ExternalWorkloads, LinkerdExternalWorkloads, Nodes, Pods,
            ReferenceGrants, Servers, ServiceCidrs, ServiceProfiles, Services, TcpRoutes,
            TrafficSplits,
        },
    };

    fn text(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    #[test]
    fn an_unreadable_object_is_named_with_its_field() {
        let object = json!({
            "metadata": { "namespace": "a", "name": "web", "resourceVersion": "7" },
            "spec": { "ports": [{ "port": 80 }, { "port": "http" }] },
        });
        let unreadable = read::<Services>(&text(&object)).unwrap_err();
        assert_eq!(unreadable.name.as_deref(), Some("a/web"));
        assert_eq!(unreadable.version.as_deref(), Some("7"));
        let reason = "spec.ports[1].port: invalid type: string \"http\"";
        assert!(unreadable.reason.starts_with(reason), "{unreadable:?}");
    }

    #[test]
    fn nesting_of_any_depth_is_of_one_object_alone() {
        let depth = 100_000;
        let nested = format!(
            r#"{{"metadata":{{"namespace":"a","name":"deep"}},"spec":{}{}}}"#,
            "[".repeat(depth),
            "]".repeat(depth)
        );
        let nested = RawValue::from_string(nested).unwrap();
        let unreadable = read::<ServiceProfiles>(&nested).unwrap_err();
        assert_eq!(unreadable.name.as_deref(), Some("a/deep"));
        assert!(unreadable.reason.len() <= LONGEST_REASON + 3);
        let deleted = read_deleted::<ServiceProfiles>(&nested);
        assert!(deleted.is_ok(), "{deleted:?}");
    }

    #[test]
    fn an_object_without_a_readable_name_has_none() {
        for object in [
            json!(7),
            json!(null),
            json!([]),
            json!({ "metadata": "a/web", "spec": {} }),
            json!({ "metadata": { "name": 1 }, "spec": {} }),
        ] {
            let unreadable = read::<Services>(&text(&object)).unwrap_err();
            assert_eq!(unreadable.name, None, "{object}");
        }
    }

    #[test]
    fn a_deleted_object_needs_its_metadata_alone() {
        let object = json!({
            "metadata": { "namespace": "a", "name": "web" },
            "spec": "nothing",
        });
        let service: Service = read_deleted::<Services>(&text(&object)).unwrap().into();
        assert_eq!(service.id.to_string(), "a/web");
        let object = json!({
            "metadata": { "namespace": "a", "name": "web-1", "labels": ["bad"] },
            "endpoints": 1,
        });
        let slice = read_deleted::<EndpointSlices>(&text(&object)).unwrap();
        assert_eq!(EndpointSlice::from(slice).id.to_string(), "a/web-1");
        let nameless = json!({ "metadata": { "name": 1 } });
        assert!(read_deleted::<Services>(&text(&nameless)).is_err());
    }

    /// Valid objects, of which one value is replaced.
    fn objects() -> [Value; 3] {
        let metadata = json!({
            "namespace": "a", "name": "web", "resourceVersion": "7", "generation": 1,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": { "kubernetes.io/service-name": "web" }, "annotations": { "other": "x" },
        });
        [
            json!({
                "metadata": metadata,
                "spec": {
                    "type": "LoadBalancer", "clusterIP": "10.96.0.10", "clusterIPs": ["10.96.0.10"],
                    "ipFamilies": ["IPv4"], "externalIPs": ["192.0.2.9"],
                    "loadBalancerSourceRanges": ["192.0.2.0/24"], "sessionAffinity": "ClientIP",
                    "sessionAffinityConfig": { "clientIP": { "timeoutSeconds": 7 } },
                    "healthCheckNodePort": 30001,
                    "ports": [{ "name": "http", "port": 80, "protocol": "TCP", "nodePort": 30080 }],
                    "service": "web", "backends": [{ "service": "v1", "weight": 1 }],
                    "dstOverrides": [{ "authority": "v1.a.svc.cluster.local:80", "weight": "500m" }],
                    "parentRefs": [{ "group": "", "kind": "Service", "name": "web", "port": 80 }],
                    "rules": [{ "backendRefs": [{ "name": "v1", "port": 80, "weight": 1 }] }],
                    "from": [{ "group": "g", "kind": "TCPRoute", "namespace": "a" }],
                    "to": [{ "group": "", "kind": "Service", "name": "web" }],
                    "cidrs": ["10.96.0.0/12"], "podCIDRs": ["10.1.1.0/24"], "taints": [{ "key": "k" }],
                    "containers": [{ "ports": [{ "containerPort": 80, "hostPort": 80 }] }],
                    "workloadIPs": [{ "ip": "192.0.2.7" }],
                    "podSelector": { "matchLabels": { "app": "web" } }, "port": 80,
                },
                "status": {
                    "loadBalancer": { "ingress": [{ "ip": "192.0.2.8", "ipMode": "VIP" }] },
                    "addresses": [{ "type": "InternalIP", "address": "192.0.2.1" }],
                    "phase": "Running", "podIPs": [{ "ip": "10.1.1.7" }],
                    "conditions": [{ "type": "Ready", "status": "True" }],
                },
            }),
            json!({
                "metadata": metadata, "addressType": "IPv4",
                "ports": [{ "name": "http", "port": 8080, "protocol": "TCP" }],
                "endpoints": [{
                    "addresses": ["10.1.1.3"], "nodeName": "n", "zone": "z",
                    "conditions": { "ready": true },
                    "hints": { "forZones": [{ "name": "z" }], "forNodes": [{ "name": "n" }] },
                }],
            }),
            json!({ "metadata": metadata }),
        ]
    }

    /// Reads the text as one of each kind, as a list and a watch do. Returns the number that can be read.
    fn read_all(text: &RawValue) -> usize {
        fn one<K: Kind>(text: &RawValue) -> usize {
            let read = read::<K>(text).map(K::Object::from);
            let deleted = read_deleted::<K>(text).map(K::Object::from);
            usize::from(read.is_ok()) + usize::from(deleted.is_ok())
        }
        one::<Services>(text)
            + one::<EndpointSlices>(text)
            + one::<ServiceCidrs>(text)
            + one::<Nodes>(text)
            + one::<Definitions>(text)
            + one::<TcpRoutes>(text)
            + one::<ReferenceGrants>(text)
            + one::<TrafficSplits>(text)
            + one::<ServiceProfiles>(text)
            + one::<ExternalWorkloads>(text)
            + one::<LinkerdExternalWorkloads>(text)
            + one::<Pods>(text)
            + one::<Servers>(text)
    }

    #[test]
    fn no_object_of_any_kind_is_read_with_a_panic() {
        let odd = odd_values();
        let (mut tried, mut read) = (0, 0);
        for object in objects() {
            for place in places(&object) {
                for value in &odd {
                    let mut object = object.clone();
                    *object.pointer_mut(&place).unwrap() = value.clone();
                    read += read_all(&text(&object));
                    tried += 26;
                }
            }
        }
        assert!(tried > 10_000 && read > tried / 2, "{read} of {tried}");
    }
}
