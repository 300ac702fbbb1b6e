//! Where an event came from.

use std::fmt;

/// Which of its source's events one is: `line 3`, `call 7`. A source names what it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Origin {
    /// What the source counts.
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
