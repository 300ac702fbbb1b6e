//! Selection of a backend for a new connection.

use std::fmt;

use crate::named::FromName;

/// A frontend's method of selecting a backend for a new connection. Either way a backend's share is
/// weight / sum of weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Selection {
    /// At random.
    #[default]
    Weighted,
    /// By the packet, from a table that follows from the backends alone: every node makes the same
    /// choice for the same packet ([`crate::maglev`]).
    Maglev,
}

impl Selection {
    /// The name as it is written and shown: `weighted`, `maglev`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Weighted => "weighted",
            Self::Maglev => "maglev",
        }
    }

    /// The one of that name.
    pub fn of_name(name: &str) -> Option<Self> {
        [Self::Weighted, Self::Maglev]
            .into_iter()
            .find(|selection| selection.name() == name)
    }
}

impl FromName for Selection {
    const EXPECTED: &'static str = "`weighted` or `maglev`";

    fn from_name(name: &str) -> Option<Self> {
        Self::of_name(name)
    }
}

impl fmt::Display for Selection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
