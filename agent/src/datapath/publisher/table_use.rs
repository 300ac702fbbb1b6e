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
    /// The use of the tables of frontends, slots and backends, under these names.
    pub fn table_use(&self, names: [&'static str; 3]) -> [TableUse; 3] {
        let capacity = self.tables.capacity();
        let free = [
            (self.indexes.free_count(), capacity.frontends),
            (self.slots.free_count(), capacity.slots),
            (self.backends.free_count(), capacity.backends),
        ];
        let [frontends, slots, backends] = free;
        let of = |name, (free, capacity): (u32, u32)| TableUse {
            name,
            used: capacity.saturating_sub(free),
            capacity,
        };
        let [a, b, c] = names;
        [of(a, frontends), of(b, slots), of(c, backends)]
    }
}
