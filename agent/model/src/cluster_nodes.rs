//! The nodes of the cluster, by name.

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

/// The nodes of the cluster, by name, each with its own addresses. Of each family, the first address is the
/// one at which other nodes reach it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClusterNodes(pub BTreeMap<Arc<str>, Vec<IpAddr>>);

impl ClusterNodes {
    /// Every address of every node.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.0.values().flatten().copied()
    }

    /// The address of the node of this name at which it is reached from one of the family of `address`.
    pub fn address_of(&self, node: &str, address: IpAddr) -> Option<IpAddr> {
        let mut addresses = self.0.get(node)?.iter().copied();
        addresses.find(|own| own.is_ipv4() == address.is_ipv4())
    }
}
