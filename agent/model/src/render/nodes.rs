//! The addresses that NodePorts stand on.

use std::{collections::BTreeSet, net::IpAddr};

use crate::{render::options::RenderOptions, unusable::unusable};

/// The addresses of the cluster's nodes, and which of them are this node's.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeAddresses {
    all: BTreeSet<IpAddr>,
    own: BTreeSet<IpAddr>,
    left_out: BTreeSet<IpAddr>,
}

impl NodeAddresses {
    /// The addresses `all` of all nodes; `options` select this node's. The events have the last
    /// word on which addresses carry NodePorts: one that is not in `all` carries none. Addresses
    /// that no other host can reach are left out.
    pub fn new(mut all: BTreeSet<IpAddr>, options: &RenderOptions) -> Self {
        let left_out = all
            .extract_if(.., |address| unusable(*address).is_some())
            .collect();
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
        Self { all, own, left_out }
    }

    /// The addresses of all nodes.
    pub const fn all(&self) -> &BTreeSet<IpAddr> {
        &self.all
    }

    /// Returns the addresses of this node.
    pub const fn own(&self) -> &BTreeSet<IpAddr> {
        &self.own
    }

    /// Returns the addresses of the events that are left out: loopback, unspecified, multicast,
    /// broadcast and IPv6 link-local addresses, which lead to no single node.
    pub const fn left_out(&self) -> &BTreeSet<IpAddr> {
        &self.left_out
    }
}
