//! The status of a check.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Status of a check, or of a service; the worse the greater.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// All is well.
    Passing,
    /// It works, but not as it should.
    Warning,
    /// It does not work.
    Critical,
}

impl Status {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Passing => "passing",
            Self::Warning => "warning",
            Self::Critical => "critical",
        }
    }

    /// That of this name.
    pub fn from_name(name: &str) -> Option<Self> {
        [Self::Passing, Self::Warning, Self::Critical]
            .into_iter()
            .find(|status| status.name() == name)
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
