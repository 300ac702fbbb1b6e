//! The addresses that NodePorts stand on.

use std::{collections::BTreeSet, net::IpAddr};

use crate::render::options::RenderOptions;

/// The addresses of the cluster's nodes, and which of them are this node's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeAddresses {
    all: BTreeSet<IpAddr>,
    own: BTreeSet<IpAddr>,
}

impl NodeAddresses {
    /// The addresses `all` of all nodes; `options` say which are this node's. The events have the
    /// last word on which addresses carry NodePorts: one that is not in `all` carries none.
    pub fn new(all: BTreeSet<IpAddr>, options: &RenderOptions) -> Self {
        let RenderOptions {
            node_ips,
            host_addresses,
            ..
        } = options;
        let known = if node_ips.is_empty() {
            host_addresses
        } else {
            node_ips
        };
        let own = all.intersection(known).copied().collect();
        Self { all, own }
    }

    /// The addresses of all nodes.
    pub const fn all(&self) -> &BTreeSet<IpAddr> {
        &self.all
    }

    /// Those that are this node's.
    pub const fn own(&self) -> &BTreeSet<IpAddr> {
        &self.own
    }
}
