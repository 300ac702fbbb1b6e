//! The watched kinds, and their requests.

use std::fmt::Debug;

use serde::de::DeserializeOwned;

use crate::objects::{
    custom::{Definition, RawDefinition},
    endpoint_slice::{EndpointSlice, RawSlice},
    external_workload::{ExternalWorkload, RawLinkerd, RawOwn},
    metadata::Metadata,
    node::{Node, RawNode},
    pod::{Pod, RawPod},
    reference_grant::{RawGrant, ReferenceGrant},
    route::{RawRoute, Route},
    server::{RawServer, Server},
    service::{RawService, Service},
    service_cidr::{RawServiceCidr, ServiceCidr},
    service_profile::{RawServiceProfile, ServiceProfile},
    traffic_split::{RawTrafficSplit, TrafficSplit},
};

/// The label that names the proxy that is to serve a Service; its slices have it, too.
const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// The label of a Service, and of its slices, that is not to be served at all.
const HEADLESS: &str = "service.kubernetes.io/headless";

/// A kind of objects.
pub(crate) trait Kind: Send + 'static {
    /// An object as it comes.
    type Raw: DeserializeOwned + Clone + Debug + Send;
    /// The part of it that is kept.
    type Object: From<Self::Raw> + Send + 'static;
    /// Its name in the log.
    const NAME: &'static str;
    /// Its path in the API.
    const PATH: &'static str;
    /// Its path in an older version of the API, for servers that do not have the newer one.
    const OLDER: Option<&'static str> = None;
    /// True if there are clusters without this kind, and whether translation can do without it.
    const OPTIONAL: bool;
    /// True if no more than the objects' metadata is asked for.
    const METADATA_ONLY: bool = false;

    /// The metadata of an object.
    fn metadata(raw: &Self::Raw) -> &Metadata;
}

/// Selection of the objects of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Selectors {
    pub(super) labels: Option<String>,
    pub(super) fields: Option<String>,
}

impl Selectors {
    /// The Services that this proxy, called `proxy` if it is not the cluster's own, serves; and the
    /// `headless` ones, if they are to be known.
    pub(crate) fn services(proxy: Option<&str>, headless: bool) -> Self {
        Self {
            labels: Some(format!("{},!{HEADLESS}", of_proxy(proxy))),
            fields: (!headless).then(|| "spec.clusterIP!=None".to_owned()),
        }
    }

    /// The slices of these Services. Those of headless ones are labelled so, the Services are not.
    pub(crate) fn endpoint_slices(proxy: Option<&str>, headless: bool) -> Self {
        let proxy = of_proxy(proxy);
        Self {
            labels: Some(if headless {
                proxy
            } else {
                format!("{proxy},!{HEADLESS}")
            }),
            fields: None,
        }
    }

    /// The pods that have not ended, of the node of this name if one is given.
    pub(crate) fn pods(node: Option<&str>) -> Self {
        let here = node.map_or_else(String::new, |name| format!(",spec.nodeName={name}"));
        Self {
            labels: None,
            fields: Some(format!(
                "status.phase!=Succeeded,status.phase!=Failed{here}"
            )),
        }
    }

    /// Selects the objects with these labels, in the form of a selector.
    pub(crate) fn labelled(labels: &str) -> Self {
        Self {
            labels: Some(labels.to_owned()),
            fields: None,
        }
    }

    /// The Node of this name alone.
    pub(crate) fn node(name: &str) -> Self {
        Self {
            labels: None,
            fields: Some(format!("metadata.name={name}")),
        }
    }
}

fn of_proxy(proxy: Option<&str>) -> String {
    match proxy {
        None => format!("!{PROXY_NAME}"),
        Some(name) => format!("{PROXY_NAME}={name}"),
    }
}

/// Services.
#[derive(Debug)]
pub(crate) struct Services;

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
pub(crate) struct EndpointSlices;

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
pub(crate) struct ServiceCidrs;

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
pub(crate) struct Nodes;

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

/// CustomResourceDefinitions, by their names alone.
#[derive(Debug)]
pub(crate) struct Definitions;

impl Kind for Definitions {
    type Raw = RawDefinition;
    type Object = Definition;
    const NAME: &'static str = "CustomResourceDefinitions";
    const PATH: &'static str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const OPTIONAL: bool = true;
    const METADATA_ONLY: bool = true;

    fn metadata(raw: &RawDefinition) -> &Metadata {
        &raw.metadata
    }
}

/// TCPRoutes, which are v1 since Gateway API 1.6.
#[derive(Debug)]
pub(crate) struct TcpRoutes;

impl Kind for TcpRoutes {
    type Raw = RawRoute;
    type Object = Route;
    const NAME: &'static str = "TCPRoutes";
    const PATH: &'static str = "/apis/gateway.networking.k8s.io/v1/tcproutes";
    const OLDER: Option<&'static str> = Some("/apis/gateway.networking.k8s.io/v1alpha2/tcproutes");
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawRoute) -> &Metadata {
        &raw.metadata
    }
}

/// UDPRoutes, which are v1 since Gateway API 1.6.
#[derive(Debug)]
pub(crate) struct UdpRoutes;

impl Kind for UdpRoutes {
    type Raw = RawRoute;
    type Object = Route;
    const NAME: &'static str = "UDPRoutes";
    const PATH: &'static str = "/apis/gateway.networking.k8s.io/v1/udproutes";
    const OLDER: Option<&'static str> = Some("/apis/gateway.networking.k8s.io/v1alpha2/udproutes");
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawRoute) -> &Metadata {
        &raw.metadata
    }
}

/// ReferenceGrants.
#[derive(Debug)]
pub(crate) struct ReferenceGrants;

impl Kind for ReferenceGrants {
    type Raw = RawGrant;
    type Object = ReferenceGrant;
    const NAME: &'static str = "ReferenceGrants";
    const PATH: &'static str = "/apis/gateway.networking.k8s.io/v1/referencegrants";
    const OLDER: Option<&'static str> =
        Some("/apis/gateway.networking.k8s.io/v1beta1/referencegrants");
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawGrant) -> &Metadata {
        &raw.metadata
    }
}

/// TrafficSplits.
#[derive(Debug)]
pub(crate) struct TrafficSplits;

impl Kind for TrafficSplits {
    type Raw = RawTrafficSplit;
    type Object = TrafficSplit;
    const NAME: &'static str = "TrafficSplits";
    const PATH: &'static str = "/apis/split.smi-spec.io/v1alpha2/trafficsplits";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawTrafficSplit) -> &Metadata {
        &raw.metadata
    }
}

/// ServiceProfiles.
#[derive(Debug)]
pub(crate) struct ServiceProfiles;

impl Kind for ServiceProfiles {
    type Raw = RawServiceProfile;
    type Object = ServiceProfile;
    const NAME: &'static str = "ServiceProfiles";
    const PATH: &'static str = "/apis/linkerd.io/v1alpha2/serviceprofiles";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawServiceProfile) -> &Metadata {
        &raw.metadata
    }
}

/// ExternalWorkloads of our own group.
#[derive(Debug)]
pub(crate) struct ExternalWorkloads;

impl Kind for ExternalWorkloads {
    type Raw = RawOwn;
    type Object = ExternalWorkload;
    const NAME: &'static str = "ExternalWorkloads";
    const PATH: &'static str = "/apis/workload.shunt.io/v1alpha1/externalworkloads";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawOwn) -> &Metadata {
        raw.metadata()
    }
}

/// ExternalWorkloads of linkerd's group.
#[derive(Debug)]
pub(crate) struct LinkerdExternalWorkloads;

impl Kind for LinkerdExternalWorkloads {
    type Raw = RawLinkerd;
    type Object = ExternalWorkload;
    const NAME: &'static str = "ExternalWorkloads of linkerd";
    const PATH: &'static str = "/apis/workload.linkerd.io/v1beta1/externalworkloads";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawLinkerd) -> &Metadata {
        raw.metadata()
    }
}

/// Servers of linkerd's policies.
#[derive(Debug)]
pub(crate) struct Servers;

impl Kind for Servers {
    type Raw = RawServer;
    type Object = Server;
    const NAME: &'static str = "Servers of linkerd";
    const PATH: &'static str = "/apis/policy.linkerd.io/v1beta3/servers";
    const OLDER: Option<&'static str> = Some("/apis/policy.linkerd.io/v1beta1/servers");
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawServer) -> &Metadata {
        &raw.metadata
    }
}

/// Pods, which only lookups ask for.
#[derive(Debug)]
pub(crate) struct Pods;

impl Kind for Pods {
    type Raw = RawPod;
    type Object = Pod;
    const NAME: &'static str = "Pods";
    const PATH: &'static str = "/api/v1/pods";
    const OPTIONAL: bool = true;

    fn metadata(raw: &RawPod) -> &Metadata {
        &raw.metadata.common
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
            let services = Selectors::services(proxy, false);
            assert_eq!(services.labels.as_deref(), Some(expected));
            assert_eq!(services.fields.as_deref(), Some("spec.clusterIP!=None"));
            let slices = Selectors::endpoint_slices(proxy, false);
            assert_eq!(slices.labels.as_deref(), Some(expected));
            assert_eq!(slices.fields, None);
            let services = Selectors::services(proxy, true);
            assert_eq!(services.labels.as_deref(), Some(expected));
            assert_eq!(services.fields, None);
            let slices = Selectors::endpoint_slices(proxy, true);
            let labels = expected.split(',').next();
            assert_eq!(slices.labels.as_deref(), labels);
        }
    }
}
