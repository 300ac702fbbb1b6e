//! A ServiceProfile of Linkerd (linkerd.io/v1alpha2).

use std::{sync::Arc, time::SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use shunt_model::{ServiceId, StatusRange};

use super::{metadata::Metadata, null, quantity::Quantity, service_name::named};

/// A ServiceProfile, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawServiceProfile")]
pub(crate) struct ServiceProfile {
    /// Its own identity; the name is one by which clients ask the cluster's DNS.
    pub(crate) id: ServiceId,
    /// Time at which it was made, in whole seconds.
    pub(crate) created: SystemTime,
    /// The Service that it is for, in a cluster whose domain its name has. If that is one of another namespace, it is
    /// for clients of its own namespace alone.
    pub(crate) service: Option<ServiceId>,
    /// Destinations of the Service's traffic in place of it.
    pub(crate) overrides: Vec<Override>,
    /// Its name, routes and retry budget, as JSON, for proxies.
    pub(crate) settings: Arc<str>,
}

/// One of the places that get a share of a Service's traffic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Override {
    /// A Service.
    Service {
        /// The Service.
        id: ServiceId,
        /// Its port; `None`: the one that is asked for.
        port: Option<u16>,
        /// In thousandths.
        weight: u32,
    },
    /// Text that is neither the name of a Service nor a weight, as it stands there.
    Bad(Box<str>),
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawServiceProfile {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RawSpec {
    #[serde(deserialize_with = "null::or_default")]
    dst_overrides: Vec<RawOverride>,
    routes: Routes,
    retry_budget: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawOverride {
    authority: Box<str>,
    weight: Quantity,
}

/// The routes of a profile as they stand there. An impossible range of statuses makes the whole profile unreadable, as
/// in Linkerd (linkerd2, `pkg/profiles`): its last readable form stays.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(try_from = "Value")]
struct Routes(Value);

/// The fields of a route that have ranges of statuses.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "to read the ranges is to check them")]
struct RangesOfRoute {
    response_classes: Option<Vec<RangesOfClass>>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "to read the ranges is to check them")]
struct RangesOfClass {
    condition: Option<Ranges>,
}

#[derive(Deserialize)]
#[expect(dead_code, reason = "to read the ranges is to check them")]
struct Ranges {
    all: Option<Vec<Ranges>>,
    any: Option<Vec<Ranges>>,
    not: Option<Box<Ranges>>,
    status: Option<StatusRange>,
}

impl TryFrom<Value> for Routes {
    type Error = serde_json::Error;

    fn try_from(routes: Value) -> Result<Self, Self::Error> {
        Option::<Vec<RangesOfRoute>>::deserialize(&routes)?;
        Ok(Self(routes))
    }
}

impl From<RawServiceProfile> for ServiceProfile {
    fn from(raw: RawServiceProfile) -> Self {
        let RawServiceProfile { metadata, spec } = raw;
        let RawSpec {
            dst_overrides,
            routes: Routes(routes),
            retry_budget,
        } = spec;
        let id = metadata.id();
        let overrides = dst_overrides.into_iter();
        let settings = json!({ "name": id.name, "routes": routes, "retryBudget": retry_budget });
        Self {
            created: metadata.created(),
            overrides: overrides.map(Override::from).collect(),
            settings: settings.to_string().into(),
            service: by_authority(&id.name),
            id,
        }
    }
}

impl From<RawOverride> for Override {
    fn from(RawOverride { authority, weight }: RawOverride) -> Self {
        let Some(weight) = weight.thousandths() else {
            return Self::Bad(authority);
        };
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0).map(Some)),
            None => (&*authority, Some(None)),
        };
        match (by_authority(name), port) {
            (Some(id), Some(port)) => Self::Service { id, port, weight },
            _ => Self::Bad(authority),
        }
    }
}

/// The Service of the name `service.namespace.svc`, whatever follows.
fn by_authority(name: &str) -> Option<ServiceId> {
    let is_of_cluster = name.split('.').nth(2) == Some("svc");
    is_of_cluster.then(|| named(name, "")).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn overrides(authority: &str, weight: &Value) -> Vec<Override> {
        let mut profile = json!({ "metadata": { "namespace": "a", "name": "x" } });
        profile["spec"]["dstOverrides"] = json!([{ "authority": authority, "weight": weight }]);
        let profile: ServiceProfile = serde_json::from_value(profile).unwrap();
        profile.overrides
    }

    #[test]
    fn it_is_for_the_service_that_its_name_names() {
        for (name, expected) in [
            ("web.a.svc.cluster.local", Some("a/web")),
            ("web.b.svc.cluster.local", Some("b/web")),
            ("web.a", None),
            ("www.example.org", None),
        ] {
            let profile = json!({ "metadata": { "namespace": "a", "name": name } });
            let profile: ServiceProfile = serde_json::from_value(profile).unwrap();
            let found = profile.service.map(|id| id.to_string());
            assert_eq!(found.as_deref(), expected, "{name}");
            assert_eq!(profile.overrides, []);
        }
    }

    #[test]
    fn an_override_is_a_service_with_or_without_a_port() {
        for (authority, expected) in [
            ("v2.b.svc.cluster.local:8080", Some(Some(8080))),
            ("v2.b.svc.cluster.local", Some(None)),
            ("v2.b.svc:0", None),
            ("v2.b.svc:x", None),
            ("v2.b:80", None),
            ("", None),
        ] {
            let expected = match expected {
                Some(port) => Override::Service {
                    id: ServiceId::new("b", "v2"),
                    port,
                    weight: 500,
                },
                None => Override::Bad(authority.into()),
            };
            assert_eq!(overrides(authority, &json!("500m")), [expected]);
        }
    }

    #[test]
    fn weights_are_quantities() {
        for (text, expected) in [
            (json!("1"), Some(1000)),
            (json!("500m"), Some(500)),
            (json!("1k"), Some(1_000_000)),
            (json!(0.25), Some(250)),
            (json!("0"), Some(0)),
            (json!("-1"), None),
            (json!("many"), None),
            (json!("5M"), None),
        ] {
            let found = overrides("v2.b.svc", &text);
            let weight = match &found[..] {
                [Override::Service { weight, .. }] => Some(*weight),
                _ => None,
            };
            assert_eq!(weight, expected, "{text}");
        }
    }

    #[test]
    fn an_impossible_range_of_statuses_makes_the_profile_unreadable() {
        let range = |min: u32, max: u32| json!({ "status": { "min": min, "max": max } });
        let read = |condition: &Value| {
            let mut profile = json!({ "metadata": { "namespace": "a", "name": "x" } });
            profile["spec"]["routes"] = json!([
                { "name": "first" },
                { "name": "second", "responseClasses": [{ "condition": condition }] },
            ]);
            serde_json::from_value::<ServiceProfile>(profile)
        };
        for (condition, is_readable) in [
            (range(500, 599), true),
            (json!({ "status": { "min": 500 } }), true),
            (
                json!({ "all": [range(200, 200)], "not": range(0, 300) }),
                true,
            ),
            (range(500, 600), false),
            (range(99, 200), false),
            (range(404, 400), false),
            (json!({ "all": [range(200, 200), range(404, 400)] }), false),
            (json!({ "any": [{ "not": range(0, 1000) }] }), false),
        ] {
            let found = read(&condition);
            assert_eq!(found.is_ok(), is_readable, "{condition}");
            if let Err(error) = found {
                let error = error.to_string();
                assert!(error.contains("statuses"), "{error}");
            }
        }
    }
}
