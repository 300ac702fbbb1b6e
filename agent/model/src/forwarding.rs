//! Forwarding of packets from outside to a backend on another node.

use std::fmt;

use crate::named::FromName;

/// Forwarding of packets from outside to a backend on another node, and of its replies back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Forwarding {
    /// From this node's address: replies come back through this node.
    #[default]
    Snat,
    /// Unchanged, in an envelope to the backend's node, which answers the client itself: direct server
    /// return.
    Dsr,
}

impl Forwarding {
    /// The name as it is written and shown: `snat`, `dsr`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Snat => "snat",
            Self::Dsr => "dsr",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Snat, Self::Dsr]
            .into_iter()
            .find(|forwarding| forwarding.name() == name)
    }
}

impl FromName for Forwarding {
    const EXPECTED: &'static str = "`snat` or `dsr`";

    fn from_name(name: &str) -> Option<Self> {
        Self::of_name(name)
    }
}

impl fmt::Display for Forwarding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
