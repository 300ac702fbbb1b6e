//! Source with which connections from outside go on to a backend of this node.

use std::fmt;

use crate::forwarding::Forwarding;

/// Source with which an external frontend's connections from other hosts go on to a backend of this node. To a
/// backend elsewhere, `forwarding` alone decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Masquerade {
    /// The client's own.
    #[default]
    Off,
    /// This node's: the backend answers by this node, whatever other ways out it has.
    On,
    /// The client's own, though this node's was asked for: in mode dsr each node keeps it.
    NotInDsr,
}

impl Masquerade {
    /// Returns the one of a frontend with this forwarding, if this node's address `is_wanted`.
    pub(crate) const fn of(is_wanted: bool, forwarding: Forwarding) -> Self {
        match (is_wanted, forwarding) {
            (false, _) => Self::Off,
            (true, Forwarding::Snat) => Self::On,
            (true, Forwarding::Dsr) => Self::NotInDsr,
        }
    }

    /// The name as it is shown: `off`, `on`, `not in dsr`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::On => "on",
            Self::NotInDsr => "not in dsr",
        }
    }
}

impl fmt::Display for Masquerade {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
