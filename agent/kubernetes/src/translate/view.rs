//! Facts about this node and its cluster that the translation needs.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use ipnet::IpNet;

use crate::objects::node::PrimaryAddresses;

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
    /// The TCP ports of nodes that no Service may have there, as far as they are known.
    pub host_ports: HostPorts,
    /// Capacities of the tables.
    pub limits: Limits,
}

/// Numbers of entries of the tables of each address family. A Service that needs more of one alone is not translated,
/// and nothing is made for it: its author decides how many that are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Frontends.
    pub frontends: u32,
    /// Backends.
    pub backends: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            frontends: u32::MAX,
            backends: u32::MAX,
        }
    }
}

/// Addresses and TCP ports of nodes, with what listens there.
pub type HostPorts = BTreeMap<(IpAddr, u16), Daemon>;

/// A part of the cluster that listens at addresses of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Daemon {
    /// The API server.
    ApiServer,
    /// A node's kubelet.
    Kubelet,
}

impl Daemon {
    /// Returns its name, with its article.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::ApiServer => "the API server",
            Self::Kubelet => "a kubelet",
        }
    }
}

impl NodeView {
    /// The range that the cluster may take this address from for a ClusterIP.
    pub(super) fn service_cidr_of(&self, address: IpAddr) -> Option<IpNet> {
        let mut ranges = self.service_cidrs.iter();
        ranges.find(|range| range.contains(&address)).copied()
    }

    /// Returns what listens at this address at one of these TCP ports, with the port.
    pub(super) fn daemon_at(
        &self,
        address: IpAddr,
        mut has_port: impl FnMut(u16) -> bool,
    ) -> Option<(u16, Daemon)> {
        let own = self.host_ports.range((address, 0)..=(address, u16::MAX));
        let mut own = own.map(|((_, port), daemon)| (*port, *daemon));
        own.find(|(port, _)| has_port(*port))
    }
}
