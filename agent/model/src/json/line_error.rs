//! Faults of a line.

use std::io;

use thiserror::Error;

use crate::error::EventError;

/// A line that gave no event. Shown as `line 3: service default/web: ports.http.port: ...`.
#[derive(Debug, Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Counted from 1, empty lines included.
    pub line: u64,
    /// The fault.
    pub fault: LineFault,
}

/// Each way in which a line can fail.
#[derive(Debug, Error)]
pub enum LineFault {
    /// The event is wrong; the next line may be right.
    #[error(transparent)]
    Event(#[from] EventError),
    /// Reading failed; no further line comes.
    #[error("cannot read on: {0}")]
    Read(#[from] io::Error),
}
