//! How full the tables are.

use super::Publisher;
use crate::datapath::{Tables, family::FromIp};

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

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// The use of the tables of frontends, slots and backends.
    pub fn table_use(&self) -> [TableUse; 3] {
        let (capacity, names) = (self.tables.capacity(), F::TABLES.shown);
        let of = |name, free, capacity: u32| TableUse {
            name,
            used: capacity.saturating_sub(free),
            capacity,
        };
        [
            of(
                names.frontends,
                self.indexes.free_count(),
                capacity.frontends,
            ),
            of(names.slots, self.slots.free_count(), capacity.slots),
            of(
                names.backends,
                self.backends.free_count(),
                capacity.backends,
            ),
        ]
    }
}
