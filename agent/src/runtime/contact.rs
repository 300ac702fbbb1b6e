//! Whether a source hears from whom it reports.

use std::time::SystemTime;

/// How a source stands with whom it listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// True if it hears from them.
    pub connected: bool,
    /// Since when this is so.
    pub since: SystemTime,
    /// Why it does not, in words.
    pub problem: Option<String>,
}
