//! What an ExternalWorkload says, as its users write it. linkerd's definition
//! (`workload.linkerd.io/v1beta1`) has the same names for what is read here.

use serde::Deserialize;

/// A machine outside the cluster, which Services of its namespace select by its labels.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// Where it answers: an address of each family, or of one of them.
    #[serde(rename = "workloadIPs")]
    pub(crate) workload_ips: Option<Vec<WorkloadIp>>,
    /// The ports that it answers at. A Service's targetPort is one of these, by its name or number.
    pub(crate) ports: Option<Vec<Port>>,
}

/// An address.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct WorkloadIp {
    /// An IPv4 or IPv6 address.
    pub(crate) ip: Option<Box<str>>,
}

/// A port.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct Port {
    /// Its name, which no other port has.
    pub(crate) name: Option<Box<str>>,
    /// Its number.
    pub(crate) port: u16,
    /// Its protocol: TCP, UDP or SCTP.
    pub(crate) protocol: Option<Box<str>>,
}
