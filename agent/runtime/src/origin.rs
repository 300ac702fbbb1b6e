//! Origin of an event.

use std::fmt;

/// Number of an event at its source: `line 3`, `call 7`. A source names what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// Unit that the source counts.
    pub unit: &'static str,
    /// Counted from 1.
    pub number: u64,
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unit, number } = self;
        write!(f, "{unit} {number}")
    }
}
