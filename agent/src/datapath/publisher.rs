//! The publish order: how a change of frontends reaches the tables while packets read them.
//!
//! 1. Source ranges, backends, then slots, into free space: nothing refers to them yet.
//! 2. New frontends: the cell, then the hash entry.
//! 3. Changed frontends: the cell, in one store. Old before it, new after it, never a mixture.
//! 4. Removed frontends: the hash entry.
//! 5. Backends that left their service get a new generation, so that UDP flows pick again.
//! 6. After a grace period, in which every packet that saw the old state has left: the space of
//!    old slices, backends, indexes and source ranges is free ([`Publisher::reclaim`]).
//!
//! After every single write, each frontend is what it was before the change or what it is after.
//! Only the steps up to 2 can fail, and what they wrote until then nobody has seen.
//!
//! What the tables hold when a publisher begins, and what others did to them since, it learns at
//! each [`Publisher::resync`].

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    mem,
    sync::Arc,
};

use bytemuck::Zeroable as _;
use shunt_common::{Backend, Cell, Family, FrontendKey, fill_slots};
use tracing::error;

use super::{
    TableError, Tables,
    allocator::{IndexAllocator, RangeAllocator},
    counted::Counted,
    family::FromIp,
    group::{Endpoint, Group, GroupKey, Slice, table_entry},
};
use crate::renderer::{BackendSet, Frontend};

use source_ranges::{List, Written};

mod adoption;
mod claims;
mod ledger;
mod resync;
mod source_ranges;
mod table_use;
#[cfg(test)]
mod tests;

pub use self::table_use::TableUse;

/// Puts one family's frontends into its tables.
#[derive(Debug)]
pub struct Publisher<F: Family, T> {
    tables: Counted<T>,
    frontends: HashMap<FrontendKey<F>, Published>,
    groups: HashMap<GroupKey, Group<F::Address>>,
    indexes: IndexAllocator,
    slots: RangeAllocator,
    backends: IndexAllocator,
    source_ranges: HashMap<FrontendKey<F>, List<F>>,
    retired: Retired,
    retired_source_ranges: Vec<source_ranges::Entry<F>>,
}

/// A frontend in the tables.
#[derive(Debug)]
struct Published {
    index: u32,
    cell: Cell,
    slice: Arc<Slice>,
}

/// What packets may still be reading.
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
    /// A publisher of no frontends yet. Tables that are not empty need a [resync](Self::resync)
    /// first.
    pub fn new(tables: T) -> Self {
        let capacity = tables.capacity();
        Self {
            tables: Counted::new(tables),
            frontends: HashMap::new(),
            groups: HashMap::new(),
            indexes: IndexAllocator::new(capacity.frontends),
            slots: RangeAllocator::new(capacity.slots.min(Cell::MAX_OFFSET)),
            backends: IndexAllocator::new(capacity.backends),
            source_ranges: HashMap::new(),
            retired: Retired::default(),
            retired_source_ranges: Vec::new(),
        }
    }

    /// The tables.
    pub const fn tables(&self) -> &T {
        &self.tables.tables
    }

    /// How many writes were made to them.
    pub const fn writes(&self) -> u64 {
        self.tables.writes()
    }

    /// Makes each of `wanted` the frontend at its key and removes the frontends at `removed`.
    ///
    /// # Errors
    ///
    /// If a table has no room or the kernel refuses a new frontend. Nothing is changed then.
    pub fn publish(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        removed: &[FrontendKey<F>],
    ) -> Result<(), TableError> {
        if !self.retired_source_ranges.is_empty() {
            // A list that replaces another may be the one that this replaced before.
            self.reclaim()?;
        }
        match self.publish_once(wanted, removed) {
            Err(TableError::Full { .. }) if self.has_retired() => {
                self.reclaim()?;
                self.publish_once(wanted, removed)
            }
            result => result,
        }
    }

    /// Whether [`Self::reclaim`] has anything to do.
    pub const fn has_retired(&self) -> bool {
        !self.retired.is_empty() || !self.retired_source_ranges.is_empty()
    }

    /// Waits for a grace period and frees what was replaced before it. Takes milliseconds, so it
    /// is for when nothing else is to be done, or when room is needed.
    ///
    /// # Errors
    ///
    /// If the kernel cannot wait; nothing is freed then.
    pub fn reclaim(&mut self) -> Result<(), TableError> {
        if !self.has_retired() {
            return Ok(());
        }
        self.tables.wait_for_readers()?;
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
        Ok(())
    }

    fn publish_once(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        removed: &[FrontendKey<F>],
    ) -> Result<(), TableError> {
        let mut touched: HashSet<GroupKey> = HashSet::new();
        let keys = wanted.iter().map(|(key, _)| key).chain(removed);
        for published in keys.filter_map(|key| self.frontends.get(key)) {
            touched.insert(GroupKey::of(&published.slice.set));
        }
        touched.extend(wanted.iter().map(|(_, new)| GroupKey::of(&new.backends)));

        let result = self.install(wanted);
        if result.is_ok() {
            for key in removed {
                self.remove(*key);
            }
        }
        for key in touched {
            self.retire_unused(key);
        }
        result
    }

    /// Steps 1 to 3.
    fn install(&mut self, wanted: &[(FrontendKey<F>, &Frontend)]) -> Result<(), TableError> {
        let written = self.write_source_ranges(wanted)?;
        let result = self.install_with(wanted, &written);
        match result {
            Ok(()) => self.adopt_source_ranges(wanted, written),
            Err(_) => self.forget_source_ranges(written),
        }
        result
    }

    fn install_with(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        written: &Written<F>,
    ) -> Result<(), TableError> {
        let slices = wanted
            .iter()
            .map(|(_, frontend)| self.slice_of(&frontend.backends))
            .collect::<Result<Vec<_>, _>>()?;

        let mut new = Vec::new();
        for ((key, frontend), slice) in wanted.iter().zip(&slices) {
            if !self.frontends.contains_key(key) {
                let flags = self.source_range_flags(key, frontend, written);
                new.push((*key, slice.cell(frontend).with(flags), slice));
            }
        }
        self.insert(new)?;

        for ((key, frontend), slice) in wanted.iter().zip(slices) {
            let flags = self.source_range_flags(key, frontend, written);
            let cell = slice.cell(frontend).with(flags);
            if let Some(published) = self.frontends.get_mut(key) {
                if published.cell != cell {
                    self.tables.write_cell(published.index, cell);
                }
                published.cell = cell;
                published.slice = slice;
            }
        }
        Ok(())
    }

    /// The slice that selects from `set`: the one that its group has, or a new one (step 1).
    fn slice_of(&mut self, set: &Arc<BackendSet>) -> Result<Arc<Slice>, TableError> {
        let Self {
            tables,
            groups,
            slots,
            backends,
            ..
        } = self;
        let key = GroupKey::of(set);
        let owner = key.fingerprint();
        let group = groups.entry(key).or_default();
        if let Some(slice) = group.slice_of(set) {
            return Ok(Arc::clone(slice));
        }
        let mut indexes = Vec::with_capacity(set.backends.len());
        let mut weights = Vec::with_capacity(set.backends.len());
        for backend in &set.backends {
            let Some(endpoint) = Endpoint::of::<F>(backend) else {
                continue;
            };
            let index = match group.backends.get(&endpoint) {
                Some(index) => *index,
                None => {
                    let index = backends.allocate().ok_or_else(|| TableError::Full {
                        table: "backends",
                        needed: 1,
                        free: backends.free_count(),
                        capacity: tables.capacity().backends,
                        flag: "--max-backends",
                    })?;
                    group.backends.insert(endpoint, index);
                    // The index may be free because an agent that was killed never got to tell
                    // its connections, so it is told here.
                    let generation = tables.backend(index).generation.wrapping_add(1);
                    if let Some(entry) = table_entry(owner, backend, generation) {
                        tables.write_backend(index, entry);
                    }
                    index
                }
            };
            indexes.push(index);
            weights.push(backend.weight);
        }
        let count = u32::try_from(indexes.len())
            .ok()
            .filter(|count| *count <= Cell::MAX_COUNT)
            .ok_or(TableError::TooManyBackends {
                backends: indexes.len(),
                limit: Cell::MAX_COUNT,
            })?;
        let offset = slots.allocate(count).ok_or_else(|| TableError::Full {
            table: "slots",
            needed: count,
            free: slots.free_count(),
            capacity: tables.capacity().slots,
            flag: "--max-slots",
        })?;
        tables.write_slots(
            offset,
            &fill_slots(&indexes, &weights, set.affinity_timeout),
        );
        let slice = Arc::new(Slice {
            set: Arc::clone(set),
            offset,
            count,
        });
        group.slices.push(Arc::clone(&slice));
        Ok(slice)
    }

    /// Step 2, for all new frontends at once.
    fn insert(&mut self, new: Vec<(FrontendKey<F>, Cell, &Arc<Slice>)>) -> Result<(), TableError> {
        let needed = new.len() as u32;
        let free = self.indexes.free_count();
        let indexes: Vec<u32> = new.iter().map_while(|_| self.indexes.allocate()).collect();
        if indexes.len() < new.len() {
            for index in indexes {
                self.indexes.free(index);
            }
            return Err(TableError::Full {
                table: "frontends",
                needed,
                free,
                capacity: self.tables.capacity().frontends,
                flag: "--max-frontends",
            });
        }
        let mut entries = Vec::with_capacity(new.len());
        for ((key, cell, _), index) in new.iter().zip(&indexes) {
            self.tables.write_cell(*index, *cell);
            entries.push((*key, *index));
        }
        if let Err(error) = self.tables.insert_frontends(&entries) {
            // Some may have been in the table for a moment.
            self.retired.frontends.extend(indexes);
            return Err(error);
        }
        for ((key, cell, slice), index) in new.into_iter().zip(indexes) {
            let slice = Arc::clone(slice);
            self.frontends.insert(key, Published { index, cell, slice });
        }
        Ok(())
    }

    /// Step 4.
    fn remove(&mut self, key: FrontendKey<F>) {
        let Some(Published { index, .. }) = self.frontends.remove(&key) else {
            return;
        };
        self.retire_source_ranges(&key);
        match self.tables.remove_frontend(key) {
            Ok(()) => self.retired.frontends.push(index),
            // The entry stays, so its index must never mean anything else.
            Err(error) => {
                self.tables.write_cell(index, Cell::default());
                error!(?key, %error, "a removed frontend stays in the table, without backends");
            }
        }
    }

    /// Step 5: what no frontend of this group uses any more.
    fn retire_unused(&mut self, key: GroupKey) {
        let Some(mut group) = self.groups.remove(&key) else {
            return;
        };
        // One owner is the group itself; more are frontends.
        let unused = group
            .slices
            .extract_if(.., |slice| Arc::strong_count(slice) == 1);
        self.retired
            .slices
            .extend(unused.map(|slice| (slice.offset, slice.count)));

        let sets = group.slices.iter().flat_map(|slice| &slice.set.backends);
        let used: BTreeMap<_, _> = sets
            .filter_map(|backend| Some((Endpoint::of::<F>(backend)?, backend)))
            .collect();
        let owner = key.fingerprint();
        group.backends.retain(|endpoint, index| {
            let index = *index;
            let now = self.tables.backend(index);
            match used.get(endpoint) {
                Some(backend) => {
                    // Its weight, place or sets may have changed: read by packets that choose a
                    // backend, each of them a word that is old or new.
                    if let Some(entry) = table_entry(owner, backend, now.generation)
                        && entry != now
                    {
                        self.tables.write_backend(index, entry);
                    }
                    true
                }
                None => {
                    next_generation(&mut self.tables, index);
                    self.retired.backends.push(index);
                    false
                }
            }
        });
        if !group.slices.is_empty() {
            self.groups.insert(key, group);
        }
    }
}

fn next_generation<F: Family>(tables: &mut impl Tables<F>, index: u32) {
    let mut backend = tables.backend(index);
    backend.generation = backend.generation.wrapping_add(1);
    tables.write_backend(index, backend);
}

/// Empties a backend that no packet can choose any more. A packet that chose it while it was being
/// removed may have opened a connection with the generation of the removal, so that changes again.
fn clear<F: Family>(tables: &mut impl Tables<F>, index: u32) {
    let generation = tables.backend(index).generation.wrapping_add(1);
    tables.write_backend(
        index,
        Backend {
            generation,
            ..Backend::zeroed()
        },
    );
}
