//! A Server of linkerd (policy.linkerd.io): the protocol of a port of workloads.

use k8s_openapi::apimachinery::pkg::{apis::meta::v1::LabelSelector, util::intstr::IntOrString};
use kube::core::Selector;
use serde::Deserialize;
use shunt_model::{PortRange, ServiceId, Workload, WorkloadKind};

use super::{labels::Labels, metadata::Metadata};

/// The protocol of ports that proxies do not parse.
const OPAQUE: &str = "opaque";

/// A Server, reduced to what makes ports opaque.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(from = "RawServer")]
pub(crate) struct Server {
    /// Its namespace and name.
    pub(crate) id: ServiceId,
    /// The ports that it makes opaque; `None`: none.
    pub(crate) opaque: Option<OpaquePort>,
}

/// A port of the workloads that a Server selects.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OpaquePort {
    pods: Option<Selector>,
    machines: Option<Selector>,
    port: IntOrString,
}

#[derive(Debug, Clone, Deserialize)]
pub(crate) struct RawServer {
    #[serde(default)]
    pub(crate) metadata: Metadata,
    #[serde(default)]
    spec: Option<RawSpec>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RawSpec {
    #[serde(default)]
    pod_selector: Option<LabelSelector>,
    #[serde(default)]
    external_workload_selector: Option<LabelSelector>,
    port: IntOrString,
    #[serde(default)]
    proxy_protocol: Option<Box<str>>,
}

impl From<RawServer> for Server {
    fn from(raw: RawServer) -> Self {
        let RawServer { metadata, spec } = raw;
        let is_opaque = |spec: &RawSpec| spec.proxy_protocol.as_deref() == Some(OPAQUE);
        let opaque = spec.filter(is_opaque).map(|spec| OpaquePort {
            pods: selector(spec.pod_selector),
            machines: selector(spec.external_workload_selector),
            port: spec.port,
        });
        Self {
            id: metadata.id(),
            opaque,
        }
    }
}

/// Returns the selector; one that the API server would refuse selects nothing, as one that is missing.
fn selector(selector: Option<LabelSelector>) -> Option<Selector> {
    selector?.try_into().ok()
}

impl OpaquePort {
    /// Returns the ports of a workload of the Server's namespace that are opaque.
    pub(crate) fn of(&self, workload: &Workload, labels: &Labels) -> Vec<PortRange> {
        let selector = match workload.id.kind {
            WorkloadKind::Pod => &self.pods,
            WorkloadKind::ExternalWorkload => &self.machines,
        };
        if !selector
            .as_ref()
            .is_some_and(|selector| labels.are_selected(selector))
        {
            return Vec::new();
        }
        let range = |port: u16| PortRange {
            first: port,
            last: port,
        };
        match &self.port {
            IntOrString::Int(number) => u16::try_from(*number).map(range).into_iter().collect(),
            IntOrString::String(name) => {
                let named = workload.ports.iter().filter(|port| *port.name == **name);
                named.map(|port| range(port.port.get())).collect()
            }
        }
    }
}
