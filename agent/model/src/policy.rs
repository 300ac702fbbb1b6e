//! The backends that a frontend may use.

use std::fmt;

use crate::named::FromName;

/// A service's traffic policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum TrafficPolicy {
    /// Every usable backend of the cluster.
    #[default]
    Cluster,
    /// Only backends on this node.
    Local,
}

impl TrafficPolicy {
    /// The name as it is written and shown: `Cluster`, `Local`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::Local => "Local",
        }
    }
}

impl FromName for TrafficPolicy {
    const EXPECTED: &'static str = "`Cluster` or `Local`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::Cluster, Self::Local]
            .into_iter()
            .find(|policy| policy.name() == name)
    }
}

impl fmt::Display for TrafficPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
