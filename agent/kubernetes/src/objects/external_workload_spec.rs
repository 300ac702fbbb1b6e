//! The spec of an ExternalWorkload, as its users write it. linkerd's definition (`workload.linkerd.io/v1beta1`)
//! has the same names for what is read here.
//!
//! `deploy/definitions/external-workloads.yaml` has the same as a schema: a test holds it against these types.

#[cfg(test)]
use schemars::JsonSchema;
use serde::Deserialize;

/// A machine outside the cluster, which Services of its namespace select by its labels.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct Spec {
    /// Its addresses: one of each family, or of one of them.
    #[serde(rename = "workloadIPs")]
    #[cfg_attr(test, schemars(required, length(min = 1, max = 2)))]
    pub(crate) workload_ips: Option<Vec<WorkloadIp>>,
    /// The ports that it answers at. A Service's targetPort is one of these, by its name or number.
    #[cfg_attr(test, schemars(length(max = 64)))]
    pub(crate) ports: Option<Vec<Port>>,
    /// Probe that shows whether it takes connections, if a controller probes.
    pub(crate) readiness_probe: Option<ReadinessProbe>,
}

/// An address.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct WorkloadIp {
    /// An IPv4 or IPv6 address.
    #[cfg_attr(test, schemars(required, length(min = 1, max = 45)))]
    pub(crate) ip: Option<Box<str>>,
}

/// A port.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Port {
    /// Its name, which no other port has.
    #[cfg_attr(
        test,
        schemars(
            length(min = 1, max = 15),
            regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
        )
    )]
    pub(crate) name: Option<Box<str>>,
    /// Its number.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    pub(crate) port: u16,
    /// Its protocol: TCP, UDP or SCTP.
    #[cfg_attr(test, schemars(extend("enum" = ["TCP", "UDP", "SCTP"], "default" = "TCP")))]
    pub(crate) protocol: Option<Box<str>>,
}

/// A probe: of the one or of the other kind.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct ReadinessProbe {
    /// It takes a connection.
    pub(crate) tcp_socket: Option<TcpSocket>,
    /// It answers a request.
    pub(crate) http_get: Option<HttpGet>,
    /// Interval of the probes.
    #[cfg_attr(test, schemars(range(min = 1, max = 3600), extend("default" = 10)))]
    pub(crate) period_seconds: Option<u32>,
    /// Longest time for an answer.
    #[cfg_attr(test, schemars(range(min = 1, max = 3600), extend("default" = 1)))]
    pub(crate) timeout_seconds: Option<u32>,
    /// So many good ones in a row make it ready.
    #[cfg_attr(test, schemars(range(min = 1, max = 100), extend("default" = 1)))]
    pub(crate) success_threshold: Option<u32>,
    /// So many bad ones in a row make it not ready.
    #[cfg_attr(test, schemars(range(min = 1, max = 100), extend("default" = 3)))]
    pub(crate) failure_threshold: Option<u32>,
}

/// A connection.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct TcpSocket {
    /// The port, of TCP.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    pub(crate) port: u16,
}

/// A request of HTTP/1.1, without encryption.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
#[serde(rename_all = "camelCase")]
pub(crate) struct HttpGet {
    /// The port, of TCP.
    #[cfg_attr(test, schemars(range(min = 1, max = 65535)))]
    pub(crate) port: u16,
    /// Path of the request.
    #[cfg_attr(
        test,
        schemars(length(max = 1024), regex(pattern = "^/"), extend("default" = "/"))
    )]
    pub(crate) path: Option<Box<str>>,
    /// Further headers. Host is the address and the port unless it is here.
    #[cfg_attr(test, schemars(length(max = 16)))]
    pub(crate) http_headers: Option<Vec<Header>>,
}

/// A header.
#[derive(Debug, Clone, Deserialize)]
#[cfg_attr(test, derive(JsonSchema))]
pub(crate) struct Header {
    /// Its name.
    #[cfg_attr(
        test,
        schemars(length(min = 1, max = 256), regex(pattern = "^[-A-Za-z0-9]+$"))
    )]
    pub(crate) name: Box<str>,
    /// Its value.
    #[cfg_attr(test, schemars(length(max = 1024)))]
    pub(crate) value: Box<str>,
}
