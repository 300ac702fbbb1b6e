//! Where an event came from.

use std::fmt;

/// The way that an event came, to name it by in logs: `line 3`, `call 7`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A line of the event file or stream, counted from 1.
    Line(u64),
    /// A call at the agent's socket, counted from 1 over all clients.
    Call(u64),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Line(number) => write!(f, "line {number}"),
            Self::Call(number) => write!(f, "call {number}"),
        }
    }
}

impl From<u64> for Origin {
    /// A line.
    fn from(line: u64) -> Self {
        Self::Line(line)
    }
}
