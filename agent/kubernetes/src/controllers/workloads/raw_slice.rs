//! An EndpointSlice as it comes from the API server.

use std::sync::Arc;

use serde::Deserialize;
use serde_json::{Value, json};
use shunt_model::ServiceId;

use crate::{
    controllers::workloads::{
        service::{Family, Labels},
        slice::{Conditions, Content, Endpoint, EndpointPort, Hints, SERVICE_NAME, Slice, Target},
    },
    objects::metadata::Metadata,
    watch::kind::Kind,
};

/// The slices of one controller.
#[derive(Debug)]
pub(super) struct Slices;

impl Kind for Slices {
    type Raw = RawSlice;
    type Object = Slice;
    const NAME: &'static str = "EndpointSlices";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";
    const OPTIONAL: bool = false;

    fn metadata(raw: &RawSlice) -> &Metadata {
        &raw.metadata.common
    }
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct RawSlice {
    #[serde(default)]
    metadata: RawMetadata,
    #[serde(default)]
    address_type: Box<str>,
    #[serde(default)]
    ports: Option<Vec<EndpointPort>>,
    #[serde(default)]
    endpoints: Option<Vec<RawEndpoint>>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawMetadata {
    #[serde(flatten)]
    common: Metadata,
    #[serde(default)]
    labels: Option<Labels>,
    #[serde(default)]
    owner_references: Option<Vec<RawOwner>>,
    #[serde(default)]
    annotations: Option<Value>,
    #[serde(default)]
    finalizers: Option<Value>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawOwner {
    #[serde(default)]
    api_version: Box<str>,
    #[serde(default)]
    kind: Box<str>,
    #[serde(default)]
    uid: Box<str>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawEndpoint {
    #[serde(default)]
    addresses: Option<Vec<Box<str>>>,
    #[serde(default)]
    conditions: Option<Conditions>,
    #[serde(default)]
    hostname: Option<Box<str>>,
    #[serde(default)]
    node_name: Option<Box<str>>,
    #[serde(default)]
    zone: Option<Box<str>>,
    #[serde(default)]
    hints: Option<Box<Hints>>,
    #[serde(default)]
    target_ref: Option<Target>,
}

impl From<RawSlice> for Slice {
    fn from(raw: RawSlice) -> Self {
        let RawSlice {
            metadata:
                RawMetadata {
                    common,
                    labels,
                    owner_references,
                    annotations,
                    finalizers,
                },
            address_type,
            ports,
            endpoints,
        } = raw;
        let labels = labels.unwrap_or_default();
        let mut ports = ports.unwrap_or_default();
        ports.sort();
        let mut owners = owner_references.unwrap_or_default().into_iter();
        let owner = owners.find(|owner| &*owner.kind == "Service" && &*owner.api_version == "v1");
        let endpoints = endpoints
            .unwrap_or_default()
            .into_iter()
            .map(Into::into)
            .map(Arc::new);
        let mut rest = json!({});
        for (name, value) in [("annotations", annotations), ("finalizers", finalizers)] {
            if let Some(value) = value {
                rest[name] = value;
            }
        }
        Self {
            uid: common.uid().into(),
            generation: common.generation(),
            is_terminating: common.is_terminating(),
            version: common.resource_version.unwrap_or_default(),
            service: ServiceId {
                namespace: common.namespace.unwrap_or_default(),
                name: labels.get(SERVICE_NAME).cloned().unwrap_or_default(),
            },
            name: common.name.unwrap_or_default(),
            owner: owner.map(|owner| owner.uid),
            content: Content {
                family: Family::of_name(&address_type),
                labels: Arc::new(labels),
                ports: ports.into(),
                endpoints: endpoints.collect(),
            },
            rest,
        }
    }
}

impl From<RawEndpoint> for Endpoint {
    fn from(raw: RawEndpoint) -> Self {
        let RawEndpoint {
            addresses,
            conditions,
            hostname,
            node_name,
            zone,
            hints,
            target_ref,
        } = raw;
        let endpoint = Self::new(
            addresses.unwrap_or_default(),
            conditions.unwrap_or_default(),
            hostname,
            zone,
            target_ref.unwrap_or_default(),
        );
        Self {
            node: node_name,
            // Empty ones are none.
            hints: hints.filter(|hints| **hints != Hints::default()),
            ..endpoint
        }
    }
}
