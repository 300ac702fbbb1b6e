//! Contact of a source with the server that it reports from.

use std::time::SystemTime;

/// Contact of a source with the server that it listens to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contact {
    /// True if it hears from them.
    pub connected: bool,
    /// Since when this is so.
    pub since: SystemTime,
    /// Why it does not, in words.
    pub problem: Option<String>,
}
