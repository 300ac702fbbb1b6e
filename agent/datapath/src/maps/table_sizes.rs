//! How large the tables are, and which flags say so.

use crate::maps::{families::Families, table_names::TableNames};

/// How many entries the tables of each family have.
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
    /// Fragmented packets of which later fragments may come.
    pub fragments: u32,
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
            fragments: 1 << 13,
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
    /// The tables whose sizes these are. Those of a family that is not translated have one entry.
    pub fn tables(&self, families: Families) -> Vec<SizedTable> {
        let of = |names, is_translated: bool| {
            let mut tables = self.tables_of(names);
            if !is_translated {
                for table in &mut tables {
                    table.entries = 1;
                    table.flag = "--ip-families";
                }
            }
            tables
        };
        [
            of(&TableNames::V4, families.ipv4),
            of(&TableNames::V6, families.ipv6),
        ]
        .concat()
    }

    fn tables_of(&self, names: &TableNames) -> [SizedTable; 8] {
        let sized = |name, entries, flag| SizedTable {
            name,
            entries,
            flag,
        };
        let Self {
            frontends,
            slots,
            backends,
            conntrack,
            affinity,
            source_ranges,
            fragments,
        } = *self;
        [
            sized(names.frontends, frontends, "--max-frontends"),
            sized(names.cells, frontends, "--max-frontends"),
            sized(names.slots, slots, "--max-slots"),
            sized(names.backends, backends, "--max-backends"),
            sized(names.conntrack, conntrack, "--max-conntrack"),
            sized(names.affinity, affinity, "--max-affinity"),
            sized(names.source_ranges, source_ranges, "--max-source-ranges"),
            sized(names.fragments, fragments, "--max-fragments"),
        ]
    }
}
