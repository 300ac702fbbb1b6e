//! An error in a configuration.

use std::ops::Range;

use thiserror::Error;

/// An error, its place and its remedy.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {what}")]
pub(crate) struct ConfigurationError {
    /// The line, from 1 on.
    pub(crate) line: usize,
    /// The field, and the error in it.
    pub(crate) what: String,
}

impl ConfigurationError {
    /// Of what stands at `span` in `text`.
    pub(super) fn at(text: &str, span: &Range<usize>, what: String) -> Self {
        let before = text.get(..span.start).unwrap_or(text);
        Self {
            line: 1 + before.matches('\n').count(),
            what,
        }
    }
}
