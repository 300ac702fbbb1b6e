//! Facts that are not measured in rounds.

use serde::Serialize;

/// A table of what is so each time, such as sizes and counts.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Facts {
    /// The suite's name and its own, as `packets/programs`.
    pub name: String,
    /// Headings of the columns; the first one is that of the row's subject.
    pub columns: Vec<&'static str>,
    /// The cells.
    pub rows: Vec<Vec<String>>,
}
