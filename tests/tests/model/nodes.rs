//! The nodes of the cluster by name, and at which of them addresses are.

use std::{collections::BTreeMap, net::IpAddr};

use super::{addresses::NODE, frontends::Cluster};

/// The nodes' addresses by their names. Of each family, the first is the one at which a node is reached.
pub(crate) type Nodes = BTreeMap<&'static str, Vec<IpAddr>>;

impl Cluster {
    /// Returns whether a node of the cluster has the address.
    pub(crate) fn is_of_node(&self, ip: IpAddr) -> bool {
        self.named.values().flatten().any(|own| *own == ip)
    }

    /// Returns whether a node of the cluster has the address, and that is not this one.
    pub(crate) fn is_of_other_node(&self, ip: IpAddr) -> bool {
        self.is_of_node(ip) && !NODE.has(ip)
    }

    /// The address of the node where an address is: a node's own is there; of an endpoint elsewhere, its
    /// services in mode dsr name the node, and the first of them whose node is known is believed.
    pub(crate) fn location(&self, ip: IpAddr) -> Option<IpAddr> {
        if self.is_of_node(ip) {
            return Some(ip);
        }
        let reached_at = |name: &str| {
            let mut own = self.named.get(name)?.iter();
            own.find(|own| own.is_ipv4() == ip.is_ipv4()).copied()
        };
        let services = self.services.values();
        services
            .filter(|service| self.has_dsr(service.id))
            .flat_map(|service| {
                let backends = service.ports.iter().flat_map(|port| &port.backends);
                let elsewhere = backends.filter(|backend| backend.at.ip == ip && !backend.local);
                elsewhere.filter_map(|backend| Some((service.id, reached_at(backend.node?)?)))
            })
            .min()
            .map(|(_, node)| node)
    }
}
