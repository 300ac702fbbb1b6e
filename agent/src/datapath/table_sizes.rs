//! How large the tables are, and which flags say so.

/// How many entries the tables have.
#[derive(Debug, Clone, Copy)]
pub struct TableSizes {
    /// Frontends.
    pub frontends: u32,
    /// Slots: one a backend of each set, and as much again while a set is being replaced.
    pub slots: u32,
    /// Backends of all services.
    pub backends: u32,
    /// Conntrack entries, two a connection.
    pub conntrack: u32,
    /// Clients of services with session affinity, counted once for each frontend.
    pub affinity: u32,
    /// Source ranges, counted once for each frontend.
    pub source_ranges: u32,
}

impl Default for TableSizes {
    fn default() -> Self {
        Self {
            frontends: 1 << 16,
            slots: 1 << 20,
            backends: 1 << 19,
            conntrack: 1 << 19,
            affinity: 1 << 16,
            source_ranges: 1 << 16,
        }
    }
}

/// A table whose size is a setting.
#[derive(Debug, Clone, Copy)]
pub struct SizedTable {
    /// Its name in the object.
    pub name: &'static str,
    /// The number of entries to create it with.
    pub entries: u32,
    /// The flag that says so.
    pub flag: &'static str,
}

impl TableSizes {
    /// The tables whose sizes these are.
    pub const fn tables(&self) -> [SizedTable; 7] {
        const fn sized(name: &'static str, entries: u32, flag: &'static str) -> SizedTable {
            SizedTable {
                name,
                entries,
                flag,
            }
        }
        let Self {
            frontends,
            slots,
            backends,
            conntrack,
            affinity,
            source_ranges,
        } = *self;
        [
            sized("FRONTENDS_V4", frontends, "--max-frontends"),
            sized("CELLS_V4", frontends, "--max-frontends"),
            sized("SLOTS_V4", slots, "--max-slots"),
            sized("BACKENDS_V4", backends, "--max-backends"),
            sized("CONNTRACK_V4", conntrack, "--max-conntrack"),
            sized("AFFINITY_V4", affinity, "--max-affinity"),
            sized("SOURCE_RANGES_V4", source_ranges, "--max-source-ranges"),
        ]
    }
}
