//! How this node's pods are told from others.

use ipnet::IpNet;

/// How this node's pods are told from others.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PodDetection {
    /// Where the cluster's pods take their addresses from, on whatever node. A client of such an
    /// address is served as one on this node, but only of a `ClusterIP` it is known to be here.
    pub cluster_cidrs: Vec<IpNet>,
    /// The interfaces behind which are pods of this node and nobody else, whatever their addresses are.
    pub interfaces: PodInterfaces,
}

/// The interfaces behind which are pods of this node and nobody else.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum PodInterfaces {
    /// They are not known: addresses tell.
    #[default]
    None,
    /// This bridge and its ports.
    Bridge(String),
    /// Those whose names begin so.
    Prefix(String),
}

impl PodInterfaces {
    /// Returns whether interfaces tell.
    pub const fn are_known(&self) -> bool {
        !matches!(self, Self::None)
    }
}
