//! Writes of a slice.

use std::sync::Arc;

use crate::controllers::workloads::slice::{Content, Slice};

/// Write of a slice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Write {
    Create(Content),
    /// Its content is to be another one.
    Update(Arc<Slice>, Content),
    Delete(Arc<Slice>),
}
