//! How full the tables are.

/// How much of a table is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableUse {
    /// What it holds, and of which family.
    pub name: &'static str,
    /// Entries that are taken, also by what was replaced and is not yet free.
    pub used: u32,
    /// Entries in all.
    pub capacity: u32,
}
