//! What a look through the conntrack table has found.

use std::ops::AddAssign;

/// What a sweep has found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// Entries that stay.
    pub kept: usize,
    /// Entries that were removed because their time had come.
    pub removed: usize,
    /// Connections that were removed for room, before their time.
    pub early_drops: usize,
}

impl AddAssign for Swept {
    fn add_assign(&mut self, other: Self) {
        let Self {
            kept,
            removed,
            early_drops,
        } = other;
        self.kept += kept;
        self.removed += removed;
        self.early_drops += early_drops;
    }
}
