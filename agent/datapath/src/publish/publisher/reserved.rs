//! The parts of the tables that packets may reach, or that are ours, and that must not be given away yet.

use std::collections::BTreeSet;

use fixedbitset::FixedBitSet;
use shunt_common::maglev::Header;

use crate::{
    maps::{family::FromIp, tables::Tables},
    publish::{group::Extent, maglev::table_of, publisher::Publisher},
};

/// Entries that must not be given away before they are retired.
#[derive(Debug)]
pub(super) struct Reserved {
    pub frontends: FixedBitSet,
    /// (offset, count), all inside the table.
    pub slices: BTreeSet<(u32, u32)>,
    /// The same of those slots alone that name backends.
    pub lists: BTreeSet<(u32, u32)>,
    pub backends: FixedBitSet,
}

impl Reserved {
    /// A slice and its Maglev table, as far as they are among `slot_count` slots.
    pub(super) fn add<F: FromIp>(
        &mut self,
        tables: &impl Tables<F>,
        extent: Extent,
        slot_count: u32,
    ) {
        let inside = |(offset, count): (u32, u32)| {
            // An offset is below 2^28 and a count at most 2^20.
            let end = (offset + count).min(slot_count);
            (offset < end).then(|| (offset, end - offset))
        };
        let Extent {
            offset,
            count,
            has_table,
        } = extent;
        self.slices.extend(inside(extent.range()));
        self.lists.extend(inside((offset, count)));
        let header = offset + count;
        if has_table && header < slot_count {
            let header = Header::of(&tables.slot(header));
            self.slices.extend(table_of(header, slot_count));
        }
    }

    /// Returns the entries that the publisher holds, in the tables still or not: if the Resync fails, it goes
    /// on from there.
    pub(super) fn known<F: FromIp, T: Tables<F>>(publisher: &Publisher<F, T>) -> Self {
        let capacity = publisher.tables.capacity();
        let set = |capacity: u32, indexes: &mut dyn Iterator<Item = u32>| {
            let mut set = FixedBitSet::with_capacity(capacity as usize);
            set.extend(indexes.map(|index| index as usize));
            set
        };
        let groups = publisher.groups.values();
        let slices = groups.clone().flat_map(|group| &group.slices);
        let tables = publisher.maglev.values();
        let is_there = |(_, count): &(u32, u32)| *count > 0;
        Self {
            frontends: set(
                capacity.frontends,
                &mut publisher
                    .frontends
                    .values()
                    .map(|published| published.index),
            ),
            slices: slices
                .clone()
                .map(|slice| slice.extent().range())
                .chain(tables.map(|table| (table.offset, table.count())))
                .filter(is_there)
                .collect(),
            lists: slices
                .map(|slice| (slice.offset, slice.count))
                .filter(is_there)
                .collect(),
            backends: set(
                capacity.backends,
                &mut groups.flat_map(|group| group.backends.values().copied()),
            ),
        }
    }
}
