//! How full the tables are.

/// How much of a table is taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableUse {
    /// What it holds, and of which family.
    pub name: &'static str,
    /// Entries that are in use.
    pub used: u32,
    /// Entries that were replaced and are not free yet.
    pub retired: u32,
    /// Entries in all.
    pub capacity: u32,
}
