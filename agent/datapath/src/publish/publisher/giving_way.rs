//! Maglev tables give way to sets that select by weight, and come back when there is room.
//!
//! A table is optional: the slots in front of it name the same backends, and a cell without [`Cell::MAGLEV`] selects
//! from these by weight. So a table is given up by one store a frontend, which needs no room, and its slots are free
//! after a grace period. Connections that the node knows stay with their backends.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use shunt_common::{Cell, FrontendKey};
use shunt_model::{BackendSet, Frontend};

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{GroupKey, Slice},
        maglev::Recipe,
        publisher::Publisher,
    },
};

/// The most entries of tables that are made again at once, beside the changes that wait meanwhile: some 30 ms.
/// Larger tables come back with the next change of their backends.
const MOST_ENTRIES: u32 = 1 << 20;

/// A slice, and what stands in its place.
type Replaced = HashMap<*const Slice, (Arc<Slice>, Arc<Slice>)>;

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Gives tables up that stand in the way of `wanted`: as many as these lack slots, or `all`. Returns the service
    /// ports that select by weight from now on; none if what is wanted does not fit without any table either.
    ///
    /// The slots are free after the next grace period.
    pub(crate) fn give_way(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        all: bool,
    ) -> BTreeSet<String> {
        let retired = self.retired.slices.iter().map(|(_, count)| *count);
        let free = u64::from(self.slots.free_count()) + u64::from(retired.sum::<u32>());
        let held = self.maglev.values().map(|table| u64::from(table.count()));
        let held: u64 = held.sum();
        let missing = self.missing(wanted);
        if missing > free + held {
            return BTreeSet::new();
        }
        let needed = if all {
            u64::MAX
        } else {
            missing.saturating_sub(free).max(1)
        };
        let victims = self.victims(needed);
        self.demote(&victims)
    }

    /// Gives up all tables that packets find, from any writer, if `wanted` fit into the slots without any.
    /// Returns true if there were any.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read.
    pub(crate) fn give_all_way(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
    ) -> Result<bool, TableError> {
        let capacity = self.tables.capacity();
        let needed: u64 = distinct(wanted)
            .into_iter()
            .map(|set| set.slot_count() as u64)
            .sum();
        if needed > capacity.slots.into() {
            return Ok(false);
        }
        let victims = self.victims(u64::MAX);
        let mut is_any = !self.demote(&victims).is_empty();
        for (_, index) in self.tables.frontends()? {
            if index < capacity.frontends {
                let cell = self.tables.cell(index);
                if cell.has(Cell::MAGLEV) {
                    is_any = true;
                    self.tables.write_cell(index, by_weight(cell));
                }
            }
        }
        Ok(is_any)
    }

    /// Returns the number of slots that `wanted` need and that nothing has yet, without tables.
    fn missing(&self, wanted: &[(FrontendKey<F>, &Frontend)]) -> u64 {
        let new = distinct(wanted).into_iter().filter(|set| {
            let group = self.groups.get(&GroupKey::of(set));
            group.and_then(|group| group.slice_of(set)).is_none()
        });
        new.map(|set| set.slot_count() as u64).sum()
    }

    /// Tables that have so many slots together, by their offsets: always the largest one of the namespace whose
    /// tables have most.
    fn victims(&self, needed: u64) -> HashSet<u32> {
        let mut namespaces: BTreeMap<&str, BTreeSet<(u32, u32)>> = BTreeMap::new();
        for (key, group) in &self.groups {
            let own = namespaces.entry(&key.service().namespace).or_default();
            let tables = group.slices.iter().filter_map(|slice| slice.table.as_ref());
            own.extend(tables.map(|table| (table.count(), table.offset)));
        }
        let sum = |own: &BTreeSet<(u32, u32)>| own.iter().map(|(count, _)| u64::from(*count)).sum();
        let mut order: BTreeSet<(u64, &str)> = namespaces
            .iter()
            .map(|(namespace, own)| (sum(own), *namespace))
            .collect();
        let (mut victims, mut freed) = (HashSet::new(), 0);
        while freed < needed
            && let Some((sum, namespace)) = order.pop_last()
        {
            let own = namespaces.get_mut(namespace);
            let Some((count, offset)) = own.and_then(BTreeSet::pop_last) else {
                continue;
            };
            // Two namespaces may share one.
            if victims.insert(offset) {
                freed += u64::from(count);
            }
            order.insert((sum.saturating_sub(count.into()), namespace));
        }
        victims
    }

    /// Has the frontends of these tables select by weight. Returns their service ports.
    fn demote(&mut self, victims: &HashSet<u32>) -> BTreeSet<String> {
        if victims.is_empty() {
            return BTreeSet::new();
        }
        let (mut replaced, mut ports) = (Replaced::new(), BTreeSet::new());
        for (key, group) in &mut self.groups {
            for slice in &mut group.slices {
                let table = slice.table.as_ref();
                if !table.is_some_and(|table| victims.contains(&table.offset)) {
                    continue;
                }
                let plain = Arc::new(Slice {
                    set: Arc::clone(&slice.set),
                    offset: slice.offset,
                    count: slice.count,
                    table: None,
                });
                // The slot that names the table, behind the slots.
                self.retired.slices.push((slice.offset + slice.count, 1));
                ports.insert(format!("{}:{}", key.service(), key.port()));
                let old = std::mem::replace(slice, Arc::clone(&plain));
                replaced.insert(Arc::as_ptr(&old), (old, plain));
            }
        }
        self.replace(&replaced);
        self.maglev.retain(|_, table| {
            let stays = !victims.contains(&table.offset);
            if !stays {
                self.retired.slices.push((table.offset, table.count()));
            }
            stays
        });
        self.wants_tables = true;
        ports
    }

    /// Has the frontends select from other slices of the same sets.
    fn replace(&mut self, replaced: &Replaced) {
        for published in self.frontends.values_mut() {
            let Some((_, new)) = replaced.get(&Arc::as_ptr(&published.slice)) else {
                continue;
            };
            let flags = by_weight(published.cell).flags();
            let cell = Cell::new(new.offset, new.count, flags);
            let cell = match new.table {
                Some(_) => cell.with(Cell::MAGLEV),
                None => cell,
            };
            self.tables.write_cell(published.index, cell);
            published.cell = cell;
            published.slice = Arc::clone(new);
        }
    }

    /// Makes tables again for which there is room now, the smallest first.
    pub(crate) fn restore_tables(&mut self) {
        if !std::mem::take(&mut self.wants_tables) {
            return;
        }
        let mut lacking: Vec<(u32, GroupKey, Arc<Slice>)> = Vec::new();
        for (key, group) in &self.groups {
            // One owner is the group itself; more are frontends.
            let used = group.slices.iter().filter(|one| Arc::strong_count(one) > 1);
            for slice in used.filter(|slice| slice.table.is_none()) {
                let recipe = Recipe::of(&slice.set);
                if let Some(slots) = recipe.and_then(|recipe| recipe.slots()) {
                    lacking.push((slots, key.clone(), Arc::clone(slice)));
                }
            }
        }
        lacking.sort_by_key(|(slots, _, slice)| (*slots, slice.offset));
        let (mut replaced, mut touched, mut entries) = (Replaced::new(), Vec::new(), 0_u32);
        for (_, key, slice) in lacking {
            let Some(recipe) = Recipe::of(&slice.set) else {
                continue;
            };
            if !self.maglev.contains_key(&recipe) {
                entries = entries.saturating_add(recipe.entries());
            }
            let new = if entries <= MOST_ENTRIES {
                self.slice_of(&slice.set).ok()
            } else {
                None
            };
            let Some(new) = new.filter(|new| new.table.is_some()) else {
                // The others are no smaller.
                self.wants_tables = true;
                break;
            };
            replaced.insert(Arc::as_ptr(&slice), (slice, new));
            touched.push(key);
        }
        self.replace(&replaced);
        drop(replaced);
        for key in touched {
            self.retire_unused(key);
        }
    }
}

/// The same cell, selecting by weight.
const fn by_weight(cell: Cell) -> Cell {
    Cell::new(cell.offset(), cell.count(), cell.flags() & !Cell::MAGLEV)
}

/// The sets of these frontends, each once.
fn distinct<'a, K>(wanted: &[(K, &'a Frontend)]) -> Vec<&'a Arc<BackendSet>> {
    let mut seen = HashSet::new();
    let mut ports: HashMap<GroupKey, Vec<&Arc<BackendSet>>> = HashMap::new();
    for (_, frontend) in wanted {
        let set = &frontend.backends;
        if seen.insert(Arc::as_ptr(set)) {
            let own = ports.entry(GroupKey::of(set)).or_default();
            if !own.contains(&set) {
                own.push(set);
            }
        }
    }
    ports.into_values().flatten().collect()
}
