//! What is watched, and how it is asked for.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use crate::source::kubernetes::objects::{
    endpoint_slice::{EndpointSlice, RawSlice},
    metadata::Metadata,
    node::{Node, RawNode},
    service::{RawService, Service},
    service_cidr::{RawServiceCidr, ServiceCidr},
};

/// The label that says who is to serve a Service; its slices have it, too.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// The label of a Service, and of its slices, that is not to be served at all.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A kind of objects.
pub(in super::super) trait Kind: Send + 'static {
    /// An object as it comes.
    type Raw: DeserializeOwned + Clone + Debug + Send;
    /// What is kept of it.
    type Object: From<Self::Raw> + Send + 'static;
    /// Its name in the log.
    const NAME: &'static str;
    /// Where the API has it.
    const PATH: &'static str;
    /// Whether there are clusters without this kind, and whether translation can do without it.
    const OPTIONAL: bool;

    /// The metadata of an object.
    fn metadata(raw: &Self::Raw) -> &Metadata;
}

/// Which objects of a kind are asked for.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Selectors {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

impl Selectors {
    /// The Services that this proxy, called `proxy` if it is not the cluster's own, serves.
    pub(in super::super) fn services(proxy: Option<&str>) -> Self {
        Self {
            labels: Some(labels(proxy)),
            fields: Some("spec.clusterIP!=None".to_owned()),
        }
    }

    /// The slices of these Services.
    pub(in super::super) fn endpoint_slices(proxy: Option<&str>) -> Self {
        Self {
            labels: Some(labels(proxy)),
            fields: None,
        }
    }

    /// The Node of this name alone.
    pub(in super::super) fn node(name: &str) -> Self {
        Self {
            labels: None,
            fields: Some(format!("metadata.name={name}")),
        }
    }
}

fn labels(proxy: Option<&str>) -> String {
    match proxy {
        None => format!("!{PROXY_NAME},!{HEADLESS}"),
        Some(name) => format!("{PROXY_NAME}={name},!{HEADLESS}"),
    }
}

/// Services.
#[derive(Debug)]
pub(in super::super) struct Services;

impl Kind for Services {
    type Raw = RawService;
    type Object = Service;
    const NAME: &'static str = "Services";
    const PATH: &'static str = "/api/v1/services";
    const OPTIONAL: bool = false;

    fn metadata(raw: &RawService) -> &Metadata {
        &raw.metadata
    }
}

/// EndpointSlices.
#[derive(Debug)]
pub(in super::super) struct EndpointSlices;

impl Kind for EndpointSlices {
    type Raw = RawSlice;
    type Object = EndpointSlice;
    const NAME: &'static str = "EndpointSlices";
    const PATH: &'static str = "/apis/discovery.k8s.io/v1/endpointslices";
    const OPTIONAL: bool = false;

    fn metadata(raw: &RawSlice) -> &Metadata {
        &raw.metadata
    }
}

/// ServiceCIDRs, which clusters have since Kubernetes 1.33.
#[derive(Debug)]
pub(in super::super) struct ServiceCidrs;

impl Kind for ServiceCidrs {
    type Raw = RawServiceCidr;
    type Object = ServiceCidr;
    const NAME: &'static str = "ServiceCIDRs";
    const PATH: &'static str = "/apis/networking.k8s.io/v1/servicecidrs";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawServiceCidr) -> &Metadata {
        &raw.metadata
    }
}

/// Nodes.
#[derive(Debug)]
pub(in super::super) struct Nodes;

impl Kind for Nodes {
    type Raw = RawNode;
    type Object = Node;
    const NAME: &'static str = "Nodes";
    const PATH: &'static str = "/api/v1/nodes";
    const OPTIONAL: bool = false;

    fn metadata(raw: &RawNode) -> &Metadata {
        &raw.metadata
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn services_and_their_slices_are_asked_for_by_the_same_labels() {
        for (proxy, expected) in [
            (
                None,
                "!service.kubernetes.io/service-proxy-name,!service.kubernetes.io/headless",
            ),
            (
                Some("shunt"),
                "service.kubernetes.io/service-proxy-name=shunt,!service.kubernetes.io/headless",
            ),
        ] {
            let services = Selectors::services(proxy);
            assert_eq!(services.labels.as_deref(), Some(expected));
            assert_eq!(services.fields.as_deref(), Some("spec.clusterIP!=None"));
            let slices = Selectors::endpoint_slices(proxy);
            assert_eq!(slices.labels.as_deref(), Some(expected));
            assert_eq!(slices.fields, None);
        }
    }
}
