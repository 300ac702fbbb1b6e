//! The selection by the slots of a slice, beside how a set is to be selected from.

use std::{collections::HashMap, num::NonZeroU32};

use shunt_common::{Slot, fill_slots, maglev::Header};
use shunt_model::{Backend, BackendSet};

use crate::{
    maps::{family::FromIp, tables::Tables},
    publish::maglev::{Recipe, sealed, table_of},
};

/// Slots as they were read.
#[derive(Debug)]
pub(super) struct LiveSelection {
    pub(super) slots: Vec<Slot>,
    /// True if they select by their backends' weights.
    pub(super) is_by_weight: bool,
    /// The Maglev table that the slot behind them refers to, if there is to be one.
    pub(super) table: Option<LiveTable>,
}

/// A Maglev table as it was read.
#[derive(Debug)]
pub(super) struct LiveTable {
    header: Header,
    /// Fingerprint of its inputs; `None` if it is not as it was when it was sealed.
    fingerprint: Option<u64>,
    /// True if those were its backends, by their weights.
    is_by_weight: bool,
}

impl LiveTable {
    /// The table that a header refers to, for a slice of these backends with this affinity.
    pub(super) fn read<F: FromIp>(
        tables: &impl Tables<F>,
        header: Header,
        backends: &[Backend],
        affinity_timeout: u32,
    ) -> Self {
        let range = table_of(header, tables.capacity().slots);
        let weights: Vec<u32> = backends.iter().map(|backend| backend.weight).collect();
        let recipe = NonZeroU32::new(header.size)
            .and_then(|size| Recipe::of_shares(backends, &weights, size));
        let mut table = Self {
            header,
            fingerprint: range.and_then(|range| sealed(tables, range)),
            is_by_weight: false,
        };
        table.is_by_weight = recipe.is_some_and(|recipe| table.is_of(&recipe, affinity_timeout));
        table
    }

    fn is_of(&self, recipe: &Recipe, affinity_timeout: u32) -> bool {
        recipe.has_header(self.header, affinity_timeout)
            && self.fingerprint == Some(recipe.fingerprint())
    }
}

impl LiveSelection {
    /// Returns whether connections are shared out just as those of `wanted` are to be, which has the same backends
    /// with the same weights. One that selects at random may be one whose table does not fit.
    pub(super) fn is_that_of(&self, wanted: &BackendSet) -> bool {
        let Self {
            slots,
            is_by_weight,
            table,
        } = self;
        if wanted.split.is_none() {
            return *is_by_weight
                && table.as_ref().is_none_or(|table| {
                    table.is_by_weight && NonZeroU32::new(table.header.size) == wanted.maglev
                });
        }
        let shares = wanted.shares();
        let indexes: Vec<u32> = slots.iter().map(|slot| slot.backend).collect();
        indexes.len() == shares.len()
            && fill_slots(&indexes, &shares, wanted.affinity_timeout) == *slots
            && table.as_ref().is_none_or(|table| {
                let recipe = Recipe::of(wanted);
                recipe.is_some_and(|recipe| table.is_of(&recipe, wanted.affinity_timeout))
            })
    }
}

/// The share of each slot's own backend, in parts of 2^32, as the slots have it.
pub(super) fn shares(slots: &[Slot]) -> Vec<u32> {
    const SLOT: u64 = 1 << 32;
    let places: HashMap<u32, usize> = slots
        .iter()
        .enumerate()
        .map(|(place, slot)| (slot.backend, place))
        .collect();
    let mut shares = vec![0u64; slots.len()];
    for slot in slots {
        let own = u64::from(slot.threshold);
        for (backend, part) in [(slot.backend, own), (slot.alias, SLOT - own)] {
            if let Some(place) = places.get(&backend) {
                shares[*place] += part;
            }
        }
    }
    // Slots are fewer than 2^20.
    let count = slots.len().max(1) as u64;
    shares
        .into_iter()
        .map(|share| u32::try_from(share / count).unwrap_or(u32::MAX))
        .collect()
}
