//! A table of the kernel programs, as bytes.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Kind of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Shape {
    /// Its keys are the numbers below this one. A value that is not listed is all zeros.
    Array(u32),
    /// Its keys are of any kind.
    Hash,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Kind of the table.
    pub shape: Shape,
    /// Number of bytes of a key.
    pub key_size: usize,
    /// Number of bytes of a value.
    pub value_size: usize,
    /// The values by the bytes of their keys; of an array those that are not all zeros.
    pub entries: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Table {
    /// The value at the index of an array; `None` if it is all zeros.
    pub fn at(&self, index: u32) -> Option<&[u8]> {
        self.entries
            .get(index.to_ne_bytes().as_slice())
            .map(Vec::as_slice)
    }
}
