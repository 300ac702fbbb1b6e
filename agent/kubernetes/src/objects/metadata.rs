//! The fields that are read of an object's metadata.

use std::time::SystemTime;

use serde::{Deserialize, de::IgnoredAny};
use shunt_model::ServiceId;

/// An object's metadata as it comes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Metadata {
    pub(crate) namespace: Option<Box<str>>,
    pub(crate) name: Option<Box<str>>,
    pub(super) uid: Option<Box<str>>,
    pub(crate) resource_version: Option<Box<str>>,
    pub(super) generation: Option<i64>,
    pub(super) creation_timestamp: Option<Box<str>>,
    pub(super) deletion_timestamp: Option<IgnoredAny>,
    pub(super) labels: Option<Labels>,
    pub(super) annotations: Option<Annotations>,
}

/// The labels that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Labels {
    #[serde(rename = "kubernetes.io/service-name")]
    pub(super) service_name: Option<Box<str>>,
    #[serde(rename = "topology.kubernetes.io/zone")]
    pub(super) zone: Option<Box<str>>,
}

/// The annotations that are read.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Annotations {
    #[serde(rename = "endpoints.kubernetes.io/last-change-trigger-time")]
    pub(super) last_change_trigger_time: Option<Box<str>>,
    #[serde(rename = "service.shunt.io/selection")]
    pub(super) selection: Option<Box<str>>,
    #[serde(rename = "service.shunt.io/forwarding")]
    pub(super) forwarding: Option<Box<str>>,
    #[serde(rename = "service.shunt.io/masquerade")]
    pub(super) masquerade: Option<Box<str>>,
    #[serde(rename = "config.linkerd.io/opaque-ports")]
    pub(super) opaque_ports: Option<Box<str>>,
    #[serde(rename = "config.linkerd.io/skip-inbound-ports")]
    pub(super) skip_inbound_ports: Option<Box<str>>,
    #[serde(rename = "workload.shunt.io/readiness-probe")]
    pub(super) readiness_probe: Option<Box<str>>,
    #[serde(rename = "service.kubernetes.io/topology-aware-hints")]
    topology_aware_hints: Option<Box<str>>,
    #[serde(rename = "service.kubernetes.io/topology-mode")]
    topology_mode: Option<Box<str>>,
}

impl Metadata {
    /// The object's namespace and name.
    pub(super) fn id(&self) -> ServiceId {
        ServiceId {
            namespace: self.namespace.clone().unwrap_or_default(),
            name: self.name.clone().unwrap_or_default(),
        }
    }

    /// Returns the unique id, which no other object has or had; empty: it has none.
    pub(crate) fn uid(&self) -> &str {
        self.uid.as_deref().unwrap_or_default()
    }

    /// Returns the number of its changes, but for those of its status; 0: it has none.
    pub(crate) fn generation(&self) -> i64 {
        self.generation.unwrap_or_default()
    }

    /// Returns whether it is being deleted.
    pub(crate) const fn is_terminating(&self) -> bool {
        self.deletion_timestamp.is_some()
    }

    /// Returns whether a Service asks by annotation for endpoints of the client's zone: the older annotation
    /// counts if there are both (Kubernetes, staging/src/k8s.io/endpointslice/utils.go, `hintsEnabled`).
    pub(crate) fn prefers_zones(&self) -> bool {
        let mode = self.annotations.as_ref().and_then(|annotations| {
            let older = annotations.topology_aware_hints.as_deref();
            older.or(annotations.topology_mode.as_deref())
        });
        matches!(mode, Some("Auto" | "auto"))
    }

    /// Returns the time at which the object was made; without one, the beginning of time.
    pub(super) fn created(&self) -> SystemTime {
        time(self.creation_timestamp.as_deref()).unwrap_or(SystemTime::UNIX_EPOCH)
    }

    /// Returns the time of the event that led to the object's last change.
    pub(super) fn triggered(&self) -> Option<SystemTime> {
        time(
            self.annotations
                .as_ref()?
                .last_change_trigger_time
                .as_deref(),
        )
    }
}

/// A time of RFC 3339, as the API server writes it.
fn time(text: Option<&str>) -> Option<SystemTime> {
    humantime::parse_rfc3339(text?).ok()
}
