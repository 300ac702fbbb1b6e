//! Source ranges: two lists a frontend, of which its cell shows which one holds.
//!
//! A new list is written where no packet looks, takes effect with the frontend's new cell, in the
//! same store, and the old one is removed after a grace period.

use std::{
    collections::{HashMap, HashSet},
    io::ErrorKind,
};

use ipnet::IpNet;
use shunt_common::{Cell, Family, FrontendKey, SourceRange, registry::Size};
use tracing::warn;

use shunt_model::Frontend;

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::publisher::Publisher,
};

/// An entry of the table: prefix length in bits, and the range.
pub(super) type Entry<F> = (u32, SourceRange<F>);

/// The list of a frontend that holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct List<F: Family> {
    /// True if it is the second one of the two.
    second: bool,
    entries: Vec<Entry<F>>,
}

impl<F: FromIp> List<F> {
    fn new(key: FrontendKey<F>, sources: &[IpNet], second: bool) -> Self {
        let frontend = key.scoped(u8::from(second));
        let entry = |range: &IpNet| {
            let client = F::address(range.network())?;
            let bits = SourceRange::<F>::FRONTEND_BITS + u32::from(range.prefix_len());
            Some((bits, SourceRange { frontend, client }))
        };
        Self {
            second,
            entries: sources.iter().filter_map(entry).collect(),
        }
    }

    /// Returns the flags that it adds to the cell.
    const fn flags(&self) -> u16 {
        if self.second {
            Cell::RANGES | Cell::SECOND_RANGES
        } else {
            Cell::RANGES
        }
    }
}

/// Lists that were written for a change and do not hold before it does.
#[derive(Debug)]
pub(super) struct Written<F: Family>(HashMap<FrontendKey<F>, List<F>>);

impl<F: Family> Default for Written<F> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Writes the list of each of `wanted` that has one and has another until now, and notes it
    /// in `written`, also if the table takes only a part.
    pub(super) fn write_source_ranges(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        written: &mut Written<F>,
    ) -> Result<(), TableError> {
        for (key, frontend) in wanted {
            let Some(list) = self.new_list(key, frontend) else {
                continue;
            };
            let refused = list
                .entries
                .iter()
                .find_map(|(bits, range)| self.tables.insert_source_range(*bits, *range).err());
            written.0.insert(*key, list);
            if let Some(error) = refused {
                return Err(self.refusal(error, wanted));
            }
        }
        Ok(())
    }

    /// The list of a frontend that is to be written, if it has one and has another until now.
    fn new_list(&self, key: &FrontendKey<F>, frontend: &Frontend) -> Option<List<F>> {
        let known = self.source_ranges.get(key);
        let second = known.is_some_and(|known| known.second);
        let same = List::new(*key, &frontend.sources, second);
        let is_new = !same.entries.is_empty() && known != Some(&same);
        is_new.then(|| List::new(*key, &frontend.sources, known.is_some() && !second))
    }

    /// The reason for which the table did not take the lists of `wanted`: a full table, or else the kernel's `error`.
    fn refusal(&self, error: TableError, wanted: &[(FrontendKey<F>, &Frontend)]) -> TableError {
        match error {
            TableError::Kernel { source, .. } if source.kind() == ErrorKind::StorageFull => {
                let new = wanted.iter();
                let new = new.filter_map(|(key, frontend)| self.new_list(key, frontend));
                let needed: usize = new.map(|list| list.entries.len()).sum();
                let held = self.source_ranges.values().map(|list| list.entries.len());
                let held = held.sum::<usize>() + self.retired_source_ranges.len();
                let capacity = self.source_range_capacity;
                TableError::Full {
                    table: Size::SourceRanges,
                    family: F::NAME,
                    needed: u32::try_from(needed).unwrap_or(u32::MAX),
                    free: capacity.saturating_sub(u32::try_from(held).unwrap_or(u32::MAX)),
                    capacity,
                }
            }
            error => error,
        }
    }

    /// Removes lists that never held.
    pub(super) fn forget_source_ranges(&mut self, written: Written<F>) {
        let Written(lists) = written;
        for (bits, range) in lists.into_values().flat_map(|list| list.entries) {
            self.remove_source_range(bits, range);
        }
    }

    /// Returns the flags that the frontend's list, the written one or else the one that holds, adds to its cell.
    pub(super) fn source_range_flags(
        &self,
        key: &FrontendKey<F>,
        frontend: &Frontend,
        written: &Written<F>,
    ) -> u16 {
        if frontend.sources.is_empty() {
            return 0;
        }
        let list = written.0.get(key).or_else(|| self.source_ranges.get(key));
        list.map_or(0, List::flags)
    }

    /// Notes that the written lists hold, and that the frontends at `open` have none any more.
    pub(super) fn adopt_source_ranges(&mut self, open: &[FrontendKey<F>], written: Written<F>) {
        for key in open {
            self.retire_source_ranges(key);
        }
        for (key, list) in written.0 {
            self.retire_source_ranges(&key);
            self.source_ranges.insert(key, list);
        }
    }

    /// The frontend's list no longer holds.
    pub(super) fn retire_source_ranges(&mut self, key: &FrontendKey<F>) {
        let list = self.source_ranges.remove(key);
        let entries = list.into_iter().flat_map(|list| list.entries);
        self.retired_source_ranges.extend(entries);
    }

    /// Removes an entry that no packet looks at.
    pub(super) fn remove_source_range(&mut self, bits: u32, range: SourceRange<F>) {
        if let Err(error) = self.tables.remove_source_range(bits, range) {
            warn!(?range, %error, "a source range that holds no more stays in the table");
        }
    }

    /// Learns which lists hold according to the tables, before a Resync. What no cell refers to
    /// is removed.
    pub(super) fn read_source_ranges(&mut self) -> Result<(), TableError> {
        let frontends: HashMap<FrontendKey<F>, u32> =
            self.tables.frontends()?.into_iter().collect();
        let cells = self.tables.capacity().frontends;
        let holds = |key: &FrontendKey<F>, second: bool| {
            let index = frontends.get(key).filter(|index| **index < cells);
            index.is_some_and(|index| {
                let cell = self.tables.cell(*index);
                cell.has(Cell::RANGES) && cell.has(Cell::SECOND_RANGES) == second
            })
        };
        let mut lists: HashMap<FrontendKey<F>, List<F>> = HashMap::new();
        let mut stale = Vec::new();
        for (bits, range) in self.tables.source_ranges()? {
            let scope = range.frontend.scope;
            let key = range.frontend.scoped(FrontendKey::<F>::EVERYONE);
            if scope <= 1 && holds(&key, scope == 1) {
                let list = lists.entry(key).or_insert_with(|| List {
                    second: scope == 1,
                    entries: Vec::new(),
                });
                list.entries.push((bits, range));
            } else {
                stale.push((bits, range));
            }
        }
        for (bits, range) in stale {
            self.remove_source_range(bits, range);
        }
        for list in lists.values_mut() {
            list.entries
                .sort_by_key(|(bits, range)| (F::ip(range.client), *bits));
        }
        self.source_ranges = lists;
        Ok(())
    }

    /// Retires the lists of frontends that are not wanted.
    pub(super) fn retire_foreign_source_ranges(&mut self, wanted: &HashSet<FrontendKey<F>>) {
        let foreign: Vec<_> = self
            .source_ranges
            .keys()
            .filter(|key| !wanted.contains(key))
            .copied()
            .collect();
        for key in foreign {
            self.retire_source_ranges(&key);
        }
    }
}
