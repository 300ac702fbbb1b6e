//! The source's settings.

use std::net::IpAddr;

use shunt_model::Forwarding;

use crate::{node_ports::NodePortAddresses, translate::view::Limits, watch::client::ApiServer};

/// Options of the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KubernetesOptions {
    /// Access to the API server.
    pub api_server: ApiServer,
    /// The name of this node's Node, as [`node_name`] gives it.
    pub node_name: String,
    /// The name of this proxy, if it serves only Services that have it as their
    /// `service.kubernetes.io/service-proxy-name`.
    pub proxy_name: Option<String>,
    /// Addresses of this node that carry NodePorts.
    pub node_port_addresses: NodePortAddresses,
    /// True if the NodePorts of other nodes are translated, too, for clients of this node.
    pub remote_node_ports: bool,
    /// This node's address of its family, in place of its Node's.
    pub node_ip: Option<IpAddr>,
    /// True if the external IPs of Services are served.
    pub external_ips: bool,
    /// True if Services may not have nodes' addresses at the ports of kubelets and of the API server.
    pub protects_host_ports: bool,
    /// Way of packets from outside to backends on other nodes, where a Service does not decide it.
    pub forwarding: Forwarding,
    /// True if the annotation `service.shunt.io/forwarding` of a Service may decide it.
    pub forwarding_by_annotation: bool,
    /// Suffix of the names of services in the cluster's DNS.
    pub cluster_domain: String,
    /// Pods that lookups know, and whether they know machines outside the cluster.
    pub lookup_pods: LookupPods,
    /// Capacities of the tables.
    pub limits: Limits,
}

/// Pods that lookups know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum LookupPods {
    /// None: no pod is watched.
    #[default]
    Off,
    /// Pods of this node.
    Node,
    /// Pods of all nodes, and machines outside the cluster (ExternalWorkloads).
    All,
}

impl LookupPods {
    /// Returns whether machines outside the cluster are known, too.
    pub(super) const fn has_machines(self) -> bool {
        matches!(self, Self::All)
    }
}

/// The name of this node's Node: what is given, or the host's own name. As Kubernetes does with it,
/// without white space around it and in lower case.
///
/// `None`: nothing is left of it.
pub fn node_name(given: Option<&str>, host: &str) -> Option<String> {
    let name = given.unwrap_or(host).trim().to_lowercase();
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_called_what_is_said_or_like_its_host() {
        for (given, expected) in [
            (None, Some("host.example")),
            (Some(" Node-1\n"), Some("node-1")),
            (Some(" "), None),
        ] {
            assert_eq!(node_name(given, "Host.Example").as_deref(), expected);
        }
    }
}
