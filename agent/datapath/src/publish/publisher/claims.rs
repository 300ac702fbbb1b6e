//! The slices and backends in the tables that are just as wanted backend sets would have them there.

use std::{
    collections::{BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use fixedbitset::FixedBitSet;
use shunt_common::{Slot, fill_slots, maglev::Header};

use shunt_model::BackendSet;

use crate::{
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{Endpoint, Extent, Group, GroupKey, Slice},
        maglev::{MaglevTable, Recipe},
        owners::Owners,
    },
};

/// Gives slices and backends to the service ports that they fit, each to one only.
pub(super) struct Claims<'a, F: FromIp, T> {
    tables: &'a T,
    /// The slices that may be given: (offset, count), none overlapping another.
    free: HashSet<(u32, u32)>,
    groups: HashMap<GroupKey, Group<F::Address>>,
    /// The numbers that these have.
    owners: Owners,
    /// The Maglev tables that are given.
    maglev: HashMap<Recipe, Arc<MaglevTable>>,
    /// The backends that are given.
    owned: FixedBitSet,
}

/// Entries that each service port was given.
pub(super) struct Given<F: FromIp> {
    pub(super) groups: HashMap<GroupKey, Group<F::Address>>,
    pub(super) owners: Owners,
    pub(super) maglev: HashMap<Recipe, Arc<MaglevTable>>,
    /// All of their backends' indexes.
    pub(super) owned: FixedBitSet,
}

impl<'a, F: FromIp, T: Tables<F>> Claims<'a, F, T> {
    /// Nothing is given yet.
    pub(super) fn new(tables: &'a T, slices: HashSet<(u32, u32)>, owners: Owners) -> Self {
        Self {
            tables,
            free: slices,
            groups: HashMap::new(),
            owners,
            maglev: HashMap::new(),
            owned: FixedBitSet::with_capacity(tables.capacity().backends as usize),
        }
    }

    /// Gives the slice to the set's service port if it is, slot by slot and backend by backend,
    /// what would be written for the set.
    pub(super) fn claim_slice(&mut self, set: &Arc<BackendSet>, extent: Extent) {
        let Extent {
            offset,
            count,
            has_table,
        } = extent;
        let key = GroupKey::of(set);
        let group = self.groups.get(&key);
        if set.slot_count() != count as usize
            || !self.free.contains(&extent.range())
            || group.is_some_and(|group| group.slice_of(set).is_some())
        {
            return;
        }
        let slots: Vec<_> = (offset..offset + count)
            .map(|slot| self.tables.slot(slot))
            .collect();
        let indexes: Vec<u32> = slots.iter().map(|slot| slot.backend).collect();
        let refused = indexes.get(set.backends.len());
        if slots != fill_slots(&indexes, &set.shares(), set.affinity_timeout)
            || refused.is_some_and(|index| *index != Slot::REFUSED)
        {
            return;
        }
        let mut backends = Vec::with_capacity(indexes.len());
        for (backend, index) in set.backends.iter().zip(indexes) {
            match Endpoint::of::<F>(backend) {
                Some(endpoint) if self.fits(group, endpoint, index) => {
                    backends.push((endpoint, index));
                }
                _ => return,
            }
        }
        let mut distinct: Vec<u32> = backends.iter().map(|(_, index)| *index).collect();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < backends.len() {
            return;
        }
        let table = if has_table {
            let Some(table) = self.claim_table(set, offset + count) else {
                return;
            };
            Some(table)
        } else {
            None
        };
        self.free.remove(&extent.range());
        for index in distinct {
            self.owned.insert(index as usize);
        }
        let group = self.group(key, backends.first().map(|(_, index)| *index));
        group.backends.extend(backends);
        group.slices.push(Arc::new(Slice {
            set: Arc::clone(set),
            offset,
            count,
            table,
        }));
    }

    /// The Maglev table of the set, if the slot behind the set's slice refers to it, and no other one has
    /// its place.
    fn claim_table(&mut self, set: &BackendSet, header: u32) -> Option<Arc<MaglevTable>> {
        let recipe = Recipe::of(set)?;
        let header = Header::of(&self.tables.slot(header));
        if !recipe.has_header(header, set.affinity_timeout) {
            return None;
        }
        let offset = header.entries.checked_sub(1)?;
        if let Some(table) = self.maglev.get(&recipe) {
            return (table.offset == offset).then(|| Arc::clone(table));
        }
        let range = (offset, recipe.slots()?);
        if !self.free.contains(&range) || !recipe.is_at(self.tables, offset) {
            return None;
        }
        self.free.remove(&range);
        let table = Arc::new(MaglevTable {
            recipe: recipe.clone(),
            offset,
        });
        self.maglev.insert(recipe, Arc::clone(&table));
        Some(table)
    }

    /// Gives a service port the backends that we know to be its own, as far as the table agrees.
    pub(super) fn claim_known(&mut self, key: &GroupKey, known: &Group<F::Address>) {
        for (endpoint, index) in &known.backends {
            // Most came with their slice.
            let group = self.groups.get(key);
            if group.and_then(|group| group.backends.get(endpoint)) != Some(index) {
                self.claim_backend(key, *endpoint, *index);
            }
        }
    }

    /// Gives the set's service port those of its backends that a slice names which is otherwise
    /// wrong: connections remember them by their indexes.
    pub(super) fn claim_backends(&mut self, set: &Arc<BackendSet>, extent: Extent) {
        // Once for all frontends that have the slice.
        if !self.free.remove(&extent.range()) {
            return;
        }
        let key = GroupKey::of(set);
        let wanted: BTreeSet<_> = set.backends.iter().filter_map(Endpoint::of::<F>).collect();
        let Extent { offset, count, .. } = extent;
        for slot in offset..offset + count {
            let index = self.tables.slot(slot).backend;
            if index < self.tables.capacity().backends {
                let endpoint = Endpoint::in_table(&self.tables.backend(index));
                if wanted.contains(&endpoint) {
                    self.claim_backend(&key, endpoint, index);
                }
            }
        }
    }

    /// Returns the entries that each service port was given.
    pub(super) fn finish(self) -> Given<F> {
        let Self {
            tables: _,
            free: _,
            groups,
            owners,
            maglev,
            owned,
        } = self;
        Given {
            groups,
            owners,
            maglev,
            owned,
        }
    }

    /// The service port, which has the number that stands beside this backend if it is new.
    fn group(&mut self, key: GroupKey, backend: Option<u32>) -> &mut Group<F::Address> {
        match self.groups.entry(key) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let before = backend.map(|index| self.tables.backend(index).owner());
                let owner = self.owners.take(new.key(), before);
                new.insert(Group::new(owner))
            }
        }
    }

    fn claim_backend(&mut self, key: &GroupKey, endpoint: Endpoint<F::Address>, index: u32) {
        if self.fits(self.groups.get(key), endpoint, index) {
            self.owned.insert(index as usize);
            let group = self.group(key.clone(), Some(index));
            group.backends.insert(endpoint, index);
        }
    }

    /// Returns whether the table has `endpoint` at `index`, and the index is the group's or has no owner.
    fn fits(
        &self,
        group: Option<&Group<F::Address>>,
        endpoint: Endpoint<F::Address>,
        index: u32,
    ) -> bool {
        let has = group.and_then(|group| group.backends.get(&endpoint));
        index < self.tables.capacity().backends
            && has.map_or(!self.owned.contains(index as usize), |has| *has == index)
            && Endpoint::in_table(&self.tables.backend(index)) == endpoint
    }
}
