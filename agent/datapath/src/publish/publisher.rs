//! The publish order: how a change of frontends reaches the tables while packets read them.
//!
//! 1. Source ranges, backends, then slots, into free space, and the cells of new frontends:
//!    nothing refers to them yet.
//! 2. New frontends: the hash entries.
//! 3. Changed frontends: the cell, in one store. Old before it, new after it, never a mixture.
//! 4. Removed frontends: the hash entry.
//! 5. Backends that left their service are marked as such and get a new generation, so that UDP flows pick again,
//!    those too whose first packet read the frontend before step 3.
//! 6. After a grace period, in which every packet that saw the old state has left: the space of
//!    old slices, backends, indexes and source ranges is free ([`Publisher::free_retired`]).
//!
//! After every single write, each frontend is what it was before the change or what it is after.
//! Only the steps up to 2 can fail. What step 1 wrote no packet has seen, and what step 2 inserted is
//! removed again. Step 1 is [`Publisher::stage`]; the others are those of the [`Change`] that it
//! returns, so that the two families take their steps together
//! ([`DualPublisher`](super::DualPublisher)).
//!
//! What the tables hold when a publisher begins, and what others did to them since, it learns at
//! each [`Publisher::stage_resync`].

use std::{collections::HashMap, mem, sync::Arc};

use bytemuck::Zeroable as _;
use shunt_common::{Backend, Cell, Family, FrontendKey};

use shunt_model::Frontend;

use crate::{
    error::TableError,
    maps::{counted::Counted, family::FromIp, table_use::TableUse, tables::Tables},
    publish::{
        allocator::{IndexAllocator, RangeAllocator},
        group::{Group, GroupKey, Slice},
        maglev::{MaglevTable, MaglevUse, ReadyTables, Recipe},
        owners::Owners,
        services::FamilyServices,
    },
};

use source_ranges::List;

mod adoption;
pub(crate) mod change;
pub(crate) mod claims;
mod giving_way;
mod ledger;
mod reserved;
pub(crate) mod resync;
pub(crate) mod source_ranges;
#[cfg(test)]
pub(crate) mod tests;
pub(crate) mod usage;

/// Puts one family's frontends into its tables.
#[derive(Debug)]
pub(crate) struct Publisher<F: Family, T> {
    tables: Counted<T>,
    frontends: HashMap<FrontendKey<F>, Published>,
    groups: HashMap<GroupKey, Group<F::Address>>,
    owners: Owners,
    maglev: HashMap<Recipe, Arc<MaglevTable>>,
    /// Tables that need not be made for the change that is at hand.
    ready: ReadyTables,
    /// True if any frontend was to have a table since the publisher began.
    uses_maglev: bool,
    /// True if a table was given up, or did not fit.
    wants_tables: bool,
    /// True if the current change makes no new table.
    without_tables: bool,
    /// The number of slots that the sets of the current change need before any table.
    owed: u32,
    indexes: IndexAllocator,
    slots: RangeAllocator,
    backends: IndexAllocator,
    source_ranges: HashMap<FrontendKey<F>, List<F>>,
    /// The number of entries that the table of source ranges has room for.
    source_range_capacity: u32,
    retired: Retired,
    retired_source_ranges: Vec<source_ranges::Entry<F>>,
    services: FamilyServices,
}

/// A frontend in the tables.
#[derive(Debug, Clone)]
struct Published {
    index: u32,
    cell: Cell,
    slice: Arc<Slice>,
}

/// Replaced entries that packets may still be reading.
#[derive(Debug, Default)]
struct Retired {
    /// (offset, count) each.
    slices: Vec<(u32, u32)>,
    backends: Vec<u32>,
    frontends: Vec<u32>,
}

impl Retired {
    const fn is_empty(&self) -> bool {
        self.slices.is_empty() && self.backends.is_empty() && self.frontends.is_empty()
    }
}

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// A publisher of no frontends yet, whose service ports are counted here. Tables that are not empty
    /// need a [resync](Self::stage_resync) first.
    pub(crate) fn counting(tables: T, services: FamilyServices) -> Self {
        let capacity = tables.capacity();
        Self {
            tables: Counted::new(tables),
            frontends: HashMap::new(),
            groups: HashMap::new(),
            owners: Owners::default(),
            maglev: HashMap::new(),
            ready: ReadyTables::default(),
            uses_maglev: false,
            wants_tables: false,
            without_tables: false,
            owed: 0,
            indexes: IndexAllocator::new(capacity.frontends),
            slots: RangeAllocator::new(capacity.slots.min(Cell::MAX_OFFSET)),
            backends: IndexAllocator::new(capacity.backends),
            source_ranges: HashMap::new(),
            source_range_capacity: u32::MAX,
            retired: Retired::default(),
            retired_source_ranges: Vec::new(),
            services,
        }
    }

    /// As [`Self::counting`], and the counts are not read.
    #[cfg(test)]
    pub(crate) fn new(tables: T) -> Self {
        use crate::{maps::service_table::FrontendsOf, publish::services::Services};
        Self::counting(tables, Services::in_memory().of_family(FrontendsOf::V4))
    }

    /// Sets the number of entries that the table of source ranges has room for.
    pub(crate) const fn set_source_range_capacity(&mut self, entries: u32) {
        self.source_range_capacity = entries;
    }

    /// The number of entries that the table of source ranges has room for.
    pub(crate) const fn source_range_capacity(&self) -> u32 {
        self.source_range_capacity
    }

    /// Has these Maglev tables at hand from now on, in place of those before.
    pub(crate) fn set_ready(&mut self, tables: ReadyTables) {
        self.ready = tables;
    }

    /// Returns whether no new tables are made from now on.
    pub(crate) const fn set_without_tables(&mut self, without: bool) {
        self.without_tables = without;
    }

    /// The tables.
    pub(crate) const fn tables(&self) -> &T {
        &self.tables.tables
    }

    /// Returns the number of writes to them.
    pub(crate) const fn writes(&self) -> u64 {
        self.tables.writes()
    }

    /// Returns the number of backends that have got a new generation because they left, or were emptied after that.
    pub(crate) const fn departures(&self) -> u64 {
        self.tables.departures()
    }

    /// Returns whether [`Self::free_retired`] has anything to do.
    pub(crate) fn has_retired(&self) -> bool {
        !self.retired.is_empty()
            || !self.retired_source_ranges.is_empty()
            || self.services.has_retired()
    }

    /// Returns whether staging `wanted` has to wait for [`Self::free_retired`]: a list of source ranges that
    /// replaces another may be the one that this replaced before.
    pub(crate) fn is_blocked(&self, wanted: &[(FrontendKey<F>, &Frontend)]) -> bool {
        let mut wanted = wanted.iter();
        !self.retired_source_ranges.is_empty()
            && wanted.any(|(_, frontend)| !frontend.sources.is_empty())
    }

    /// Waits for a grace period of the machine, which is one of the other family's packets too.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait.
    pub(crate) fn wait_for_readers(&mut self) -> Result<(), TableError> {
        self.tables.wait_for_readers()
    }

    /// Frees what was replaced before the last grace period ([`Self::wait_for_readers`]), which
    /// the caller has seen to.
    pub(crate) fn free_retired(&mut self) {
        let Retired {
            slices,
            backends,
            frontends,
        } = mem::take(&mut self.retired);
        for (offset, count) in slices {
            self.slots.free(offset, count);
        }
        for index in backends {
            clear(&mut self.tables, index);
            self.backends.free(index);
        }
        for index in frontends {
            self.indexes.free(index);
        }
        for (bits, range) in mem::take(&mut self.retired_source_ranges) {
            self.remove_source_range(bits, range);
        }
        self.services.free_retired();
    }

    /// The Maglev tables, and whose do not fit.
    pub(crate) fn maglev_use(&self) -> MaglevUse {
        if !self.uses_maglev {
            return MaglevUse::default();
        }
        let groups = self.groups.iter();
        let is_without = |group: &Group<F::Address>| {
            let mut slices = group.slices.iter();
            slices.any(|slice| slice.table.is_none() && Recipe::of(&slice.set).is_some())
        };
        MaglevUse {
            tables: self.maglev.len() as u64,
            slots: self
                .maglev
                .values()
                .map(|table| u64::from(table.count()))
                .sum(),
            without_room: groups
                .filter(|(_, group)| is_without(group))
                .map(|(key, _)| format!("{}:{}", key.service(), key.port()))
                .collect(),
        }
    }

    /// The use of the tables of frontends, slots and backends.
    pub(crate) fn table_use(&self) -> [TableUse; 3] {
        let (capacity, maps) = (self.tables.capacity(), F::MAPS);
        let of = |name, free, retired, capacity: u32| TableUse {
            name,
            used: capacity.saturating_sub(free).saturating_sub(retired),
            retired,
            capacity,
        };
        let Retired {
            slices,
            backends,
            frontends,
        } = &self.retired;
        [
            of(
                maps.frontends.shown,
                self.indexes.free_count(),
                frontends.len() as u32,
                capacity.frontends,
            ),
            of(
                maps.slots.shown,
                self.slots.free_count(),
                slices.iter().map(|(_, count)| count).sum(),
                capacity.slots,
            ),
            of(
                maps.backends.shown,
                self.backends.free_count(),
                backends.len() as u32,
                capacity.backends,
            ),
        ]
    }
}

/// Returns whether there is a part of the service port among the groups.
fn has_part<A>(groups: &HashMap<GroupKey, Group<A>>, key: &GroupKey) -> bool {
    key.parts().any(|part| groups.contains_key(&part))
}

fn next_generation<F: Family, T: Tables<F>>(tables: &mut Counted<T>, index: u32) {
    let mut backend = tables.backend(index);
    // First: a packet that reads the new generation knows that it is no longer its frontend's backend.
    backend.flags |= Backend::<F>::LEFT;
    tables.write_backend(index, backend);
    backend.generation = backend.generation.wrapping_add(1);
    tables.write_backend(index, backend);
    tables.count_departure();
}

/// Empties a backend that no packet can choose any more. A packet that chose it while it was being
/// removed may have opened a connection with the generation of the removal, so that changes again.
fn clear<F: Family, T: Tables<F>>(tables: &mut Counted<T>, index: u32) {
    let generation = tables.backend(index).generation.wrapping_add(1);
    tables.write_backend(
        index,
        Backend {
            generation,
            ..Backend::zeroed()
        },
    );
    tables.count_departure();
}
