//! A ServiceProfile of Linkerd (linkerd.io/v1alpha2).

use std::{sync::Arc, time::SystemTime};

use serde::Deserialize;
use serde_json::{Value, json};
use shunt_model::ServiceId;

use super::{metadata::Metadata, null, service_name::named};

/// A ServiceProfile, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawServiceProfile")]
pub(crate) struct ServiceProfile {
    /// Its own identity; the name is one by which clients ask the cluster's DNS.
    pub(crate) id: ServiceId,
    /// Time at which it was made, in whole seconds.
    pub(crate) created: SystemTime,
    /// The Service that it is for; `None`: one of another namespace, for which it counts with clients of its
    /// own namespace alone.
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
    routes: Value,
    retry_budget: Value,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawOverride {
    authority: Box<str>,
    weight: Quantity,
}

/// A number of Kubernetes: `500m`, `"1"`, or 1.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Quantity {
    Text(Box<str>),
    Number(f64),
}

impl Default for Quantity {
    fn default() -> Self {
        Self::Number(0.0)
    }
}

impl Quantity {
    /// In thousandths, up to the next whole one; `None`: it is none that a weight can have.
    fn thousandths(&self) -> Option<u32> {
        let thousandths = match self {
            Self::Number(number) => number * 1000.0,
            Self::Text(text) => match text.strip_suffix('m') {
                Some(thousandths) => thousandths.parse().ok()?,
                None => text.parse::<f64>().ok()? * 1000.0,
            },
        };
        let whole = thousandths.ceil();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it is a whole number within the range"
        )]
        (0.0..=f64::from(u32::MAX))
            .contains(&whole)
            .then_some(whole as u32)
    }
}

impl From<RawServiceProfile> for ServiceProfile {
    fn from(raw: RawServiceProfile) -> Self {
        let RawServiceProfile { metadata, spec } = raw;
        let RawSpec {
            dst_overrides,
            routes,
            retry_budget,
        } = spec;
        let id = metadata.id();
        let overrides = dst_overrides.into_iter();
        let settings = json!({ "name": id.name, "routes": routes, "retryBudget": retry_budget });
        Self {
            created: metadata.created(),
            overrides: overrides.map(Override::from).collect(),
            settings: settings.to_string().into(),
            service: by_authority(&id.name).filter(|service| service.namespace == id.namespace),
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
    fn it_is_for_a_service_of_its_own_namespace() {
        for (name, expected) in [
            ("web.a.svc.cluster.local", Some("a/web")),
            ("web.b.svc.cluster.local", None),
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
    fn weights_are_read_as_kubernetes_does() {
        for (text, expected) in [
            (json!("1"), Some(1000)),
            (json!("0.5"), Some(500)),
            (json!("1500m"), Some(1500)),
            (json!("0.3m"), Some(1)),
            (json!(2), Some(2000)),
            (json!(0.25), Some(250)),
            (json!("0"), Some(0)),
            (json!("-1"), None),
            (json!("nan"), None),
            (json!("many"), None),
            (json!("5000000"), None),
        ] {
            let found = overrides("v2.b.svc", &text);
            let weight = match &found[..] {
                [Override::Service { weight, .. }] => Some(*weight),
                _ => None,
            };
            assert_eq!(weight, expected, "{text}");
        }
    }
}
