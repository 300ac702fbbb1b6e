//! What can be wrong with a line.

use std::{io, str::Utf8Error};

use thiserror::Error;

use crate::error::EventError;

/// A line that gave no event. Shown as `line 3: service default/web: ports.http.port: ...`.
#[derive(Debug, Error)]
#[error("line {line}: {fault}")]
pub struct LineError {
    /// Counted from 1, empty lines included.
    pub line: u64,
    /// What is wrong.
    pub fault: LineFault,
}

/// Each way in which a line can fail.
#[derive(Debug, Error)]
pub enum LineFault {
    /// The event is wrong; the next line may be right.
    #[error(transparent)]
    Event(#[from] EventError),
    /// JSON is UTF-8 (RFC 8259 section 8.1).
    #[error("not valid UTF-8 (column {})", .0.valid_up_to() + 1)]
    Encoding(#[from] Utf8Error),
    /// The line is too long to be kept in memory; it is skipped.
    #[error("longer than {limit} bytes")]
    TooLong {
        /// The longest line that is read.
        limit: usize,
    },
    /// Reading failed; no further line comes.
    #[error("cannot read on: {0}")]
    Read(#[from] io::Error),
}
