//! Which slices and backends in the tables are just what wanted backend sets would have there.

use std::{
    collections::{BTreeSet, HashMap, HashSet, hash_map::Entry},
    sync::Arc,
};

use fixedbitset::FixedBitSet;
use shunt_common::fill_slots;

use shunt_model::BackendSet;

use crate::{
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{Endpoint, Group, GroupKey, Slice},
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
    /// The backends that are given.
    owned: FixedBitSet,
}

/// What each service port was given.
pub(super) struct Given<F: FromIp> {
    pub(super) groups: HashMap<GroupKey, Group<F::Address>>,
    pub(super) owners: Owners,
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
            owned: FixedBitSet::with_capacity(tables.capacity().backends as usize),
        }
    }

    /// Gives the slice to the set's service port if it is, slot by slot and backend by backend,
    /// what would be written for the set.
    pub(super) fn claim_slice(&mut self, set: &Arc<BackendSet>, (offset, count): (u32, u32)) {
        let key = GroupKey::of(set);
        let group = self.groups.get(&key);
        if set.backends.len() != count as usize
            || !self.free.contains(&(offset, count))
            || group.is_some_and(|group| group.slice_of(set).is_some())
        {
            return;
        }
        let slots: Vec<_> = (offset..offset + count)
            .map(|slot| self.tables.slot(slot))
            .collect();
        let indexes: Vec<u32> = slots.iter().map(|slot| slot.backend).collect();
        let weights: Vec<u32> = set.backends.iter().map(|backend| backend.weight).collect();
        if slots != fill_slots(&indexes, &weights, set.affinity_timeout) {
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
        self.free.remove(&(offset, count));
        for index in distinct {
            self.owned.insert(index as usize);
        }
        let group = self.group(key, backends.first().map(|(_, index)| *index));
        group.backends.extend(backends);
        group.slices.push(Arc::new(Slice {
            set: Arc::clone(set),
            offset,
            count,
        }));
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
    pub(super) fn claim_backends(&mut self, set: &Arc<BackendSet>, slice: (u32, u32)) {
        // Once for all frontends that have the slice.
        if !self.free.remove(&slice) {
            return;
        }
        let key = GroupKey::of(set);
        let wanted: BTreeSet<_> = set.backends.iter().filter_map(Endpoint::of::<F>).collect();
        let (offset, count) = slice;
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

    /// What each service port was given.
    pub(super) fn finish(self) -> Given<F> {
        let Self {
            tables: _,
            free: _,
            groups,
            owners,
            owned,
        } = self;
        Given {
            groups,
            owners,
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

    /// Whether the table has `endpoint` at `index`, and the index is the group's or nobody's.
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
