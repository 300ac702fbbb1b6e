//! A TrafficSplit of the Service Mesh Interface (split.smi-spec.io/v1alpha2).

use std::time::SystemTime;

use serde::Deserialize;
use shunt_model::ServiceId;

use super::{
    lenient::{self, Lenient},
    metadata::Metadata,
    service_name::named,
};

/// A TrafficSplit, reduced to the fields that are read.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(from = "RawTrafficSplit")]
pub(crate) struct TrafficSplit {
    /// Its own identity; all Services that it names are of its namespace.
    pub(crate) id: ServiceId,
    /// Time at which it was made, in whole seconds.
    pub(crate) created: SystemTime,
    /// The Service whose connections are split; `None`: it is named as one of another namespace.
    pub(crate) root: Option<ServiceId>,
    /// The Services that get them, each with its weight.
    pub(crate) backends: Vec<(ServiceId, u32)>,
    /// Errors of backends that are not among them.
    pub(crate) bad_backends: Box<[Box<str>]>,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawTrafficSplit {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: RawSpec,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct RawSpec {
    service: Box<str>,
    #[serde(deserialize_with = "lenient::list")]
    backends: Lenient<RawBackend>,
}

#[derive(Debug, Clone, Deserialize)]
struct RawBackend {
    #[serde(default)]
    service: Box<str>,
    #[serde(default)]
    weight: i64,
}

impl From<RawTrafficSplit> for TrafficSplit {
    fn from(raw: RawTrafficSplit) -> Self {
        let RawTrafficSplit { metadata, spec } = raw;
        let RawSpec { service, backends } = spec;
        let created = metadata.created();
        let id = metadata.id();
        let namespace = &id.namespace;
        let bad_backends = backends.bad.into();
        let backends = backends.elements.into_iter().map(|backend| {
            let RawBackend { service, weight } = backend;
            let service = ServiceId {
                namespace: namespace.clone(),
                name: service,
            };
            (service, u32::try_from(weight.max(0)).unwrap_or(u32::MAX))
        });
        Self {
            created,
            backends: backends.collect(),
            bad_backends,
            root: named(&service, namespace).filter(|root| root.namespace == *namespace),
            id,
        }
    }
}
