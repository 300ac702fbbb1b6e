//! What the service ports use: the slices that select from their sets, and the backends in them.

use std::{
    collections::{BTreeMap, hash_map::Entry},
    sync::Arc,
};

use shunt_common::{Cell, fill_slots, registry::Size};

use shunt_model::BackendSet;

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{Endpoint, Group, GroupKey, Slice, table_entry},
        publisher::{Publisher, next_generation},
    },
};

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// The slice that selects from `set`: the one that its group has, or a new one in free space.
    pub(super) fn slice_of(&mut self, set: &Arc<BackendSet>) -> Result<Arc<Slice>, TableError> {
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
                        table: Size::Backends,
                        family: F::NAME,
                        needed: 1,
                        free: backends.free_count(),
                        capacity: tables.capacity().backends,
                    })?;
                    group.backends.insert(endpoint, index);
                    // The index may be free because an agent that was killed never got to tell
                    // its connections, so it is told here.
                    let generation = tables.backend(index).generation.wrapping_add(1);
                    if let Some(entry) = table_entry(group.owner, backend, generation) {
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
            table: Size::Slots,
            family: F::NAME,
            needed: count,
            free: slots.free_count(),
            capacity: tables.capacity().slots,
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
            self.services.release(&key);
        } else {
            self.groups.insert(key, group);
        }
    }

    /// Whether there is nothing to do for a group: it has one slice, which is used, and just the
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
