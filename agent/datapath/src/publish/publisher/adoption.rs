//! The owners of the tables' contents: what was read back, beside what we knew and what is
//! wanted.
//!
//! Nothing that was read is believed. An index or a slice that lies outside the tables, or that
//! two claim, has no owner; a slice belongs to a wanted set only if every word of it is as we would
//! write it. What has no owner but can be reached by packets is retired like any other old state.

use std::{
    collections::{BTreeSet, HashMap, HashSet},
    sync::Arc,
};

use bytemuck::Zeroable as _;
use fixedbitset::FixedBitSet;
use shunt_common::{Backend, Cell, Family, FrontendKey};

use shunt_model::Frontend;

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        allocator::{IndexAllocator, RangeAllocator},
        group::{Extent, GroupKey, Slice},
        owners::Owners,
        publisher::{
            Published, Publisher, Retired,
            claims::{Claims, Given},
            ledger::Ledger,
            reserved::Reserved,
        },
    },
};

/// The tables' contents, sorted out.
#[derive(Debug)]
pub(super) struct Adoption<F: Family> {
    /// Entries that are wanted and there: the state to publish from.
    pub ledger: Ledger<F>,
    /// Entries of the frontend table that are not wanted, with their indexes.
    pub foreign: Vec<(FrontendKey<F>, u32)>,
    /// Entries that packets can reach, or that we knew, but that nothing wanted uses as they are.
    pub unclaimed: Retired,
    /// Backends that no packet can reach, as an agent leaves them that is killed before it
    /// reclaims them.
    pub leftovers: Vec<u32>,
}

/// Sorts out what `publisher`'s tables hold, for a snapshot of `wanted` frontends.
pub(super) fn adopt<F: FromIp, T: Tables<F>>(
    publisher: &Publisher<F, T>,
    wanted: &[(FrontendKey<F>, &Frontend)],
) -> Result<Adoption<F>, TableError> {
    let tables = &publisher.tables;
    let capacity = tables.capacity();
    let slot_count = capacity.slots.min(Cell::MAX_OFFSET);
    let found = tables.frontends()?;
    let entries: HashMap<FrontendKey<F>, u32> = found
        .iter()
        .copied()
        .filter(|(_, index)| *index < capacity.frontends)
        .collect();

    let mut reserved = Reserved::known(publisher);
    for index in entries.values() {
        reserved.frontends.insert(*index as usize);
        reserved.add(tables, Extent::of(tables.cell(*index)), slot_count);
    }
    let ranges = union(&reserved.slices);
    let lists = union(&reserved.lists);
    for slot in lists
        .iter()
        .flat_map(|(offset, count)| *offset..offset + count)
    {
        let slot = tables.slot(slot);
        for index in [slot.backend, slot.alias] {
            if index < capacity.backends {
                reserved.backends.insert(index as usize);
            }
        }
    }

    let frontends = own_entries(publisher, &entries, wanted);
    let given = give(publisher, &frontends, wanted, &reserved);
    let kept: FixedBitSet = frontends
        .values()
        .map(|published| published.index as usize)
        .collect();
    let claimed: BTreeSet<(u32, u32)> = given
        .groups
        .values()
        .flat_map(|group| &group.slices)
        .map(|slice| slice.extent().range())
        .chain(
            given
                .maglev
                .values()
                .map(|table| (table.offset, table.count())),
        )
        .collect();
    let wanted: HashSet<FrontendKey<F>> = wanted.iter().map(|(key, _)| *key).collect();
    let clear = |backend: Backend<F>| {
        let generation = backend.generation;
        backend
            == Backend {
                generation,
                ..Backend::zeroed()
            }
    };
    Ok(Adoption {
        foreign: found
            .into_iter()
            .filter(|(key, _)| !wanted.contains(key))
            .collect(),
        unclaimed: Retired {
            slices: difference(&ranges, &claimed),
            backends: numbers(reserved.backends.difference(&given.owned)),
            frontends: numbers(reserved.frontends.difference(&kept)),
        },
        leftovers: (0..capacity.backends)
            .filter(|index| {
                !reserved.backends.contains(*index as usize) && !clear(tables.backend(*index))
            })
            .collect(),
        ledger: Ledger {
            frontends,
            groups: given.groups,
            owners: given.owners,
            maglev: given.maglev,
            indexes: IndexAllocator::with_used(capacity.frontends, &reserved.frontends),
            slots: RangeAllocator::with_used(slot_count, &ranges),
            backends: IndexAllocator::with_used(capacity.backends, &reserved.backends),
        },
    })
}

/// Gives the wanted service ports what is theirs in the tables: what we know to be, and what the cells of
/// their `frontends` point at.
fn give<F: FromIp, T: Tables<F>>(
    publisher: &Publisher<F, T>,
    frontends: &HashMap<FrontendKey<F>, Published>,
    wanted: &[(FrontendKey<F>, &Frontend)],
    reserved: &Reserved,
) -> Given<F> {
    let tables = &publisher.tables;
    let groups: HashSet<GroupKey> = wanted
        .iter()
        .map(|(_, frontend)| GroupKey::of(&frontend.backends))
        .collect();
    let owners = owners(tables, reserved);
    let mut claims = Claims::new(tables, disjoint(&reserved.slices), owners);
    for (key, group) in publisher
        .groups
        .iter()
        .filter(|(key, _)| groups.contains(key))
    {
        for slice in &group.slices {
            claims.claim_slice(&slice.set, slice.extent());
        }
        claims.claim_known(key, group);
    }
    let cells = || {
        let found = frontends.values();
        found.map(|found| (&found.slice.set, Extent::of(found.cell)))
    };
    for (set, extent) in cells() {
        claims.claim_slice(set, extent);
    }
    for (set, extent) in cells() {
        claims.claim_backends(set, extent);
    }
    claims.finish()
}

/// The numbers of service ports that stand beside the backends.
fn owners<F: FromIp>(tables: &impl Tables<F>, reserved: &Reserved) -> Owners {
    let backends = reserved.backends.ones();
    Owners::new(
        backends
            .map(|index| tables.backend(index as u32).owner())
            .collect(),
    )
}

/// The numbers of a set of indexes, which are all below 2^32.
fn numbers(indexes: impl Iterator<Item = usize>) -> Vec<u32> {
    indexes.map(|index| index as u32).collect()
}

/// The wanted frontends that are in the table, each with an index of its own and with the slice
/// that its cell points at, which may be any.
fn own_entries<F: FromIp, T: Tables<F>>(
    publisher: &Publisher<F, T>,
    entries: &HashMap<FrontendKey<F>, u32>,
    wanted: &[(FrontendKey<F>, &Frontend)],
) -> HashMap<FrontendKey<F>, Published> {
    let mut there: Vec<_> = wanted
        .iter()
        .filter_map(|(key, frontend)| Some((*key, *entries.get(key)?, *frontend)))
        .collect();
    // If two have one index, it is the one's of whom we know it.
    there.sort_by_key(|(key, index, _)| {
        let known = publisher.frontends.get(key);
        known.is_none_or(|known| known.index != *index)
    });
    let mut taken = HashSet::new();
    there.retain(|(_, index, _)| taken.insert(*index));
    there
        .into_iter()
        .map(|(key, index, frontend)| {
            let cell = publisher.tables.cell(index);
            let slice = Arc::new(Slice {
                set: Arc::clone(&frontend.backends),
                offset: cell.offset(),
                count: cell.count(),
                table: None,
            });
            (key, Published { index, cell, slice })
        })
        .collect()
}

/// The ranges' union: sorted, not touching.
fn union(ranges: &BTreeSet<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut union: Vec<(u32, u32)> = Vec::new();
    for &(offset, count) in ranges {
        match union.last_mut() {
            Some((start, length)) if offset <= *start + *length => {
                *length = (*length).max(offset + count - *start);
            }
            _ => union.push((offset, count)),
        }
    }
    union
}

/// Returns the ranges that overlap none before them.
fn disjoint(ranges: &BTreeSet<(u32, u32)>) -> HashSet<(u32, u32)> {
    let mut end = 0;
    let ranges = ranges.iter().copied();
    ranges
        .filter(|(offset, count)| {
            let free = *offset >= end;
            end = end.max(offset + count);
            free
        })
        .collect()
}

/// Returns the parts of `ranges` that are in none of `others`, which do not overlap.
fn difference(ranges: &[(u32, u32)], others: &BTreeSet<(u32, u32)>) -> Vec<(u32, u32)> {
    let mut difference = Vec::new();
    for &(offset, count) in ranges {
        let end = offset + count;
        let mut start = offset;
        for &(other, length) in others.range((offset, 0)..(end, 0)) {
            if other > start {
                difference.push((start, other - start));
            }
            start = start.max(other + length);
        }
        if start < end {
            difference.push((start, end - start));
        }
    }
    difference
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_sorted_out() {
        let ranges = BTreeSet::from([(0, 4), (2, 4), (6, 1), (9, 2), (9, 3)]);
        assert_eq!(union(&ranges), [(0, 7), (9, 3)]);
        assert_eq!(
            disjoint(&ranges),
            HashSet::from([(0, 4), (6, 1), (9, 2)]),
            "(9, 3) overlaps (9, 2)"
        );
        let others = BTreeSet::from([(1, 2), (3, 1), (9, 3)]);
        assert_eq!(difference(&union(&ranges), &others), [(0, 1), (4, 3)]);
    }
}
