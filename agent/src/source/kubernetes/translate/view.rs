//! What translation has to know of this node and its cluster.

use std::{collections::BTreeSet, net::IpAddr, sync::Arc};

use ipnet::IpNet;

use crate::source::kubernetes::objects::node::PrimaryAddresses;

/// This node and its cluster, as far as they decide how a service is translated here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeView {
    /// Its name: an endpoint of this node has it.
    pub name: Arc<str>,
    /// Its zone, never empty.
    pub zone: Option<Box<str>>,
    /// Its primary addresses.
    pub addresses: PrimaryAddresses,
    /// The ranges that the cluster takes ClusterIPs from, as far as they are known.
    pub service_cidrs: BTreeSet<IpNet>,
}

impl NodeView {
    /// The range that the cluster may take this address from for a ClusterIP.
    pub(super) fn service_cidr_of(&self, address: IpAddr) -> Option<IpNet> {
        let mut ranges = self.service_cidrs.iter();
        ranges.find(|range| range.contains(&address)).copied()
    }
}
