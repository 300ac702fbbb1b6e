//! The ways to distinguish this node's pods from others.

use ipnet::IpNet;

/// Ways to distinguish this node's pods from others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodDetection {
    /// Ranges from which the cluster's pods take their addresses, on any node. A client of such an
    /// address is served as one on this node, but only of a `ClusterIP` it is known to be here.
    pub cluster_cidrs: Vec<IpNet>,
    /// The interfaces behind which are pods of this node and nothing else, whatever their addresses are.
    pub interfaces: PodInterfaces,
}

/// The interfaces behind which are pods of this node and nothing else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PodInterfaces {
    /// They are not known: addresses decide.
    #[default]
    None,
    /// This bridge and its ports.
    Bridge(String),
    /// Interfaces whose names begin so.
    Prefix(String),
}

impl PodInterfaces {
    /// Returns whether interfaces decide.
    pub const fn are_known(&self) -> bool {
        !matches!(self, Self::None)
    }
}
