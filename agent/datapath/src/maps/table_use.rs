//! The use of the tables.

/// Use of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableUse {
    /// Kind of its entries, and their family.
    pub name: &'static str,
    /// Entries that are in use.
    pub used: u32,
    /// Entries that were replaced and are not free yet.
    pub retired: u32,
    /// Entries in all.
    pub capacity: u32,
}
