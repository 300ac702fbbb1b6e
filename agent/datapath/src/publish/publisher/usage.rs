//! The entries that service ports use: the slices that select from their sets, and the backends in them.

use std::{
    borrow::Cow,
    collections::{BTreeMap, hash_map::Entry},
    sync::Arc,
};

use shunt_common::{Cell, Slot, fill_slots, registry::Size};

use shunt_model::BackendSet;

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{Endpoint, Group, GroupKey, Slice, table_entry},
        maglev::{MaglevTable, RESERVE, Recipe},
        publisher::{Publisher, has_part, next_generation},
    },
};

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// The slice that selects from `set`: the one that its group has, or a new one in free space. One
    /// without the table that the set is to have is replaced if there is room now.
    pub(super) fn slice_of(&mut self, set: &Arc<BackendSet>) -> Result<Arc<Slice>, TableError> {
        let group = self.groups.get(&GroupKey::of(set));
        let known = group.and_then(|group| group.slice_of(set)).cloned();
        if let Some(slice) = &known
            && slice.table.is_some()
        {
            return Ok(Arc::clone(slice));
        }
        let table = self.table_of(set)?;
        match (known, table) {
            (Some(slice), None) => Ok(slice),
            (_, table) => {
                let slice = self.new_slice(set, table.as_ref());
                if let (Err(_), Some(table)) = (&slice, &table) {
                    self.release(table);
                }
                slice
            }
        }
    }

    /// A new slice in free space.
    fn new_slice(
        &mut self,
        set: &Arc<BackendSet>,
        table: Option<&Arc<MaglevTable>>,
    ) -> Result<Arc<Slice>, TableError> {
        let Self {
            tables,
            groups,
            owners,
            slots,
            backends,
            ..
        } = self;
        let group = match groups.entry(GroupKey::of(set)) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let owner = owners.take(new.key(), None);
                new.insert(Group::new(owner))
            }
        };
        let mut indexes = Vec::with_capacity(set.slot_count());
        for backend in &set.backends {
            let Some(endpoint) = Endpoint::of::<F>(backend) else {
                continue;
            };
            let index = match group.backends.get(&endpoint) {
                Some(index) => *index,
                None => {
                    let index = backends.allocate().ok_or_else(|| TableError::Full {
                        table: Size::Backends,
                        family: F::NAME,
                        needed: 1,
                        free: backends.free_count(),
                        capacity: tables.capacity().backends,
                    })?;
                    group.backends.insert(endpoint, index);
                    // The index may be free because an agent that was killed never got to notify
                    // its connections, so that is done here.
                    let generation = tables.backend(index).generation.wrapping_add(1);
                    if let Some(entry) = table_entry(group.owner, backend, generation) {
                        tables.write_backend(index, entry);
                    }
                    index
                }
            };
            indexes.push(index);
        }
        if set.refused() > 0 {
            indexes.push(Slot::REFUSED);
        }
        let count = u32::try_from(indexes.len())
            .ok()
            .filter(|count| *count <= Cell::MAX_COUNT)
            .ok_or(TableError::TooManyBackends {
                backends: indexes.len(),
                limit: Cell::MAX_COUNT,
            })?;
        let mut new = fill_slots(&indexes, &set.shares(), set.affinity_timeout);
        new.extend(table.map(|table| table.header(set.affinity_timeout)));
        let needed = count + u32::from(table.is_some());
        let offset = slots.allocate(needed).ok_or_else(|| TableError::Full {
            table: Size::Slots,
            family: F::NAME,
            needed,
            free: slots.free_count(),
            capacity: tables.capacity().slots,
        })?;
        tables.write_slots(offset, &new);
        let slice = Arc::new(Slice {
            set: Arc::clone(set),
            offset,
            count,
            table: table.cloned(),
        });
        group.slices.push(Arc::clone(&slice));
        Ok(slice)
    }

    /// Returns the recipe of the Maglev table of `set`, if there is none yet, and room for it or at least
    /// when what was retired is free.
    pub(crate) fn lacks(&self, set: &BackendSet) -> Option<Recipe> {
        let recipe = Recipe::of(set).filter(|recipe| !self.maglev.contains_key(recipe))?;
        let needed = recipe.slots()?;
        let retired = self.retired.slices.iter().map(|(_, count)| count).sum();
        let free = self.slots.free_count().saturating_add(retired);
        self.are_enough(free, needed).then_some(recipe)
    }

    /// Returns whether a Maglev table of `needed` slots may be made where so many are free.
    fn are_enough(&self, free: u32, needed: u32) -> bool {
        let kept = (self.tables.capacity().slots / RESERVE).max(self.owed);
        free.checked_sub(kept).is_some_and(|free| free >= needed)
    }

    /// The Maglev table of `set`: the one that there is, or a new one. `None` if it needs none, or if
    /// there is no room for it: the set is selected from by weight then.
    ///
    /// # Errors
    ///
    /// If there may be room when what was retired is free.
    fn table_of(&mut self, set: &BackendSet) -> Result<Option<Arc<MaglevTable>>, TableError> {
        let Some(recipe) = Recipe::of(set) else {
            return Ok(None);
        };
        if let Some(table) = self.maglev.get(&recipe) {
            return Ok(Some(Arc::clone(table)));
        }
        let Some(needed) = recipe.slots() else {
            return Ok(None);
        };
        if self.without_tables {
            self.wants_tables = true;
            return Ok(None);
        }
        let free = self.slots.free_count();
        let is_room = self.are_enough(free, needed);
        let Some(offset) = is_room.then(|| self.slots.allocate(needed)).flatten() else {
            self.wants_tables = true;
            return if self.retired.is_empty() {
                Ok(None)
            } else {
                Err(TableError::Full {
                    table: Size::Slots,
                    family: F::NAME,
                    needed,
                    free,
                    capacity: self.tables.capacity().slots,
                })
            };
        };
        let ready = self.ready.get(&recipe).map(Cow::Borrowed);
        let Some(slots) = ready.or_else(|| recipe.fill().map(Cow::Owned)) else {
            self.slots.free(offset, needed);
            return Ok(None);
        };
        self.tables.write_slots(offset, &slots);
        let table = Arc::new(MaglevTable {
            recipe: recipe.clone(),
            offset,
        });
        self.maglev.insert(recipe, Arc::clone(&table));
        Ok(Some(table))
    }

    /// A slice does without this table from now on.
    fn release(&mut self, table: &Arc<MaglevTable>) {
        // One owner is the list of tables, one the caller.
        if Arc::strong_count(table) <= 2 {
            self.maglev.remove(&table.recipe);
            self.retired.slices.push((table.offset, table.count()));
        }
    }

    /// Step 5: what no frontend of this group uses any more.
    pub(super) fn retire_unused(&mut self, key: GroupKey) {
        if self
            .groups
            .get(&key)
            .is_some_and(|group| self.is_settled(group))
        {
            return;
        }
        let Some(mut group) = self.groups.remove(&key) else {
            return;
        };
        // One owner is the group itself; more are frontends.
        let unused: Vec<_> = group
            .slices
            .extract_if(.., |slice| Arc::strong_count(slice) == 1)
            .collect();
        for slice in unused {
            self.retired.slices.push(slice.extent().range());
            let table = slice.table.clone();
            drop(slice);
            if let Some(table) = &table {
                self.release(table);
            }
        }

        let sets = group.slices.iter().flat_map(|slice| &slice.set.backends);
        let used: BTreeMap<_, _> = sets
            .filter_map(|backend| Some((Endpoint::of::<F>(backend)?, backend)))
            .collect();
        let owner = group.owner;
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
        if group.slices.is_empty() {
            self.owners.release(owner);
            if !has_part(&self.groups, &key) {
                self.services.release(&key);
            }
        } else {
            self.groups.insert(key, group);
        }
    }

    /// Returns whether there is nothing to do for a group: it has one slice, which is used, and just the
    /// backends that this selects from, which are in the table as they are to be.
    fn is_settled(&self, group: &Group<F::Address>) -> bool {
        let [slice] = group.slices.as_slice() else {
            return false;
        };
        let is_right = |backend| {
            let endpoint = Endpoint::of::<F>(backend)?;
            let now = self.tables.backend(*group.backends.get(&endpoint)?);
            Some(table_entry(group.owner, backend, now.generation)? == now)
        };
        Arc::strong_count(slice) > 1
            && group.backends.len() == slice.set.backends.len()
            && slice
                .set
                .backends
                .iter()
                .all(|backend| is_right(backend) == Some(true))
    }
}
