//! One change of a family's frontends: written where no packet looks, then shown, or taken back.

use std::{collections::HashSet, sync::Arc};

use shunt_common::{Cell, Family, FrontendKey, ServiceNumber, registry::Size};
use tracing::{error, warn};

use shunt_model::{BackendSet, Frontend};

use crate::{
    error::TableError,
    maps::{family::FromIp, tables::Tables},
    publish::{
        group::{GroupKey, Slice},
        publisher::{
            Published, Publisher, Retired, has_part, resync::Findings, source_ranges::Written,
        },
    },
};

/// A change that its tables have room for: step 1 of the publish order is done.
///
/// [`Self::insert`] and then [`Self::commit`] are the other steps. If it is dropped before, at
/// whatever step, no packet has seen a change of what was there, and its space is free again.
#[derive(Debug)]
pub(crate) struct Change<'a, F: FromIp, T: Tables<F>> {
    publisher: &'a mut Publisher<F, T>,
    /// `None` when it is done.
    staged: Option<Staged<F>>,
}

/// A change that is staged.
#[derive(Debug)]
struct Staged<F: Family> {
    /// Frontends that exist, and what they become.
    known: Vec<(FrontendKey<F>, Cell, Arc<Slice>, ServiceNumber)>,
    /// Frontends that do not exist yet.
    new: Vec<(FrontendKey<F>, Published)>,
    /// True if packets may have found the new ones.
    shown: bool,
    /// The source ranges of both.
    source_ranges: Written<F>,
    /// Frontends that have none.
    open: Vec<FrontendKey<F>>,
    rest: Rest<F>,
}

/// Treatment of everything else.
#[derive(Debug)]
enum Rest<F: Family> {
    /// These frontends go, and what these service ports used may be unused.
    Stays {
        removed: Vec<FrontendKey<F>>,
        touched: HashSet<GroupKey>,
    },
    /// All of it goes.
    Goes(Box<Findings<F>>),
}

/// The slots that sets need which are to have a table, without that.
#[derive(Debug)]
struct Owed {
    slots: u32,
    sets: HashSet<*const BackendSet>,
}

impl Owed {
    fn of<K>(frontends: &[&(K, &Frontend)]) -> Self {
        let mut owed = Self {
            slots: 0,
            sets: HashSet::new(),
        };
        for (_, frontend) in frontends {
            if owed.sets.insert(Arc::as_ptr(&frontend.backends)) {
                let slots = slots_of(&frontend.backends);
                owed.slots = owed.slots.saturating_add(slots);
            }
        }
        owed
    }

    /// A set has its slots.
    fn pay(&mut self, set: &Arc<BackendSet>) {
        if self.sets.remove(&Arc::as_ptr(set)) {
            self.slots = self.slots.saturating_sub(slots_of(set));
        }
    }
}

/// The number of slots that a set needs, with the header of its table.
fn slots_of(set: &BackendSet) -> u32 {
    u32::try_from(set.slot_count() + 1).unwrap_or(u32::MAX)
}

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Makes ready that each of `wanted` becomes the frontend at its key and that the frontends at
    /// `removed` go. Not while it [is blocked](Self::is_blocked).
    ///
    /// # Errors
    ///
    /// If a table has no room. Nothing is changed then.
    pub(crate) fn stage(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
        removed: &[FrontendKey<F>],
    ) -> Result<Change<'_, F, T>, TableError> {
        let keys = wanted.iter().map(|(key, _)| key).chain(removed);
        let before = keys
            .filter_map(|key| self.frontends.get(key))
            .map(|published| GroupKey::of(&published.slice.set));
        let after = wanted.iter().map(|(_, new)| GroupKey::of(&new.backends));
        let rest = Rest::Stays {
            touched: before.chain(after).collect(),
            removed: removed.to_vec(),
        };
        Change::new(self, wanted, rest)
    }

    /// Makes ready that `wanted` become the frontends of the tables, whatever was in them: of an
    /// earlier publisher, or changed by someone else. What is right already is not touched.
    ///
    /// The caller has waited for a grace period and has freed what was retired, so that no packet
    /// is left that saw what an agent replaced that was killed just now.
    ///
    /// # Errors
    ///
    /// If the tables cannot be read or have no room. What packets see is as it was then.
    pub(crate) fn stage_resync(
        &mut self,
        wanted: &[(FrontendKey<F>, &Frontend)],
    ) -> Result<Change<'_, F, T>, TableError> {
        let rest = Rest::Goes(Box::new(self.sort_out(wanted)?));
        Change::new(self, wanted, rest)
    }
}

impl<'a, F: FromIp, T: Tables<F>> Change<'a, F, T> {
    /// Step 1. Dropping the change cleans up after a failure.
    fn new(
        publisher: &'a mut Publisher<F, T>,
        wanted: &[(FrontendKey<F>, &Frontend)],
        rest: Rest<F>,
    ) -> Result<Self, TableError> {
        let mut change = Self {
            publisher,
            staged: Some(Staged {
                known: Vec::new(),
                new: Vec::new(),
                shown: false,
                source_ranges: Written::default(),
                open: Vec::new(),
                rest,
            }),
        };
        change.write(wanted)?;
        Ok(change)
    }

    fn write(&mut self, wanted: &[(FrontendKey<F>, &Frontend)]) -> Result<(), TableError> {
        let Self { publisher, staged } = self;
        let Some(staged) = staged else {
            return Ok(());
        };
        let Staged {
            known,
            new,
            source_ranges,
            open,
            ..
        } = staged;
        publisher.write_source_ranges(wanted, source_ranges)?;
        let mut absent = Vec::new();
        // Those that need a table come last: tables take what is left.
        let (plain, others): (Vec<_>, Vec<_>) = wanted
            .iter()
            .partition(|(_, frontend)| frontend.backends.maglev.is_none());
        publisher.uses_maglev |= !others.is_empty();
        let mut owed = Owed::of(&others);
        for (key, frontend) in plain.into_iter().chain(others) {
            publisher.owed = owed.slots;
            let slice = publisher.slice_of(&frontend.backends);
            publisher.owed = 0;
            let slice = slice?;
            owed.pay(&frontend.backends);
            let service = publisher.services.claim(&GroupKey::of(&frontend.backends));
            let flags = publisher.source_range_flags(key, frontend, source_ranges);
            let cell = slice.cell(frontend).with(flags);
            if frontend.sources.is_empty() {
                open.push(*key);
            }
            if publisher.frontends.contains_key(key) {
                known.push((*key, cell, slice, service));
            } else {
                absent.push((*key, cell, slice, service));
            }
        }
        let free = publisher.indexes.free_count();
        if (free as usize) < absent.len() {
            return Err(TableError::Full {
                table: Size::Frontends,
                family: F::NAME,
                needed: absent.len() as u32,
                free,
                capacity: publisher.tables.capacity().frontends,
            });
        }
        for (key, cell, slice, service) in absent {
            let Some(index) = publisher.indexes.allocate() else {
                break;
            };
            publisher.tables.write_cell(index, cell);
            publisher.services.assign(index, service);
            new.push((key, Published { index, cell, slice }));
        }
        Ok(())
    }

    /// Step 2, for all new frontends at once.
    ///
    /// # Errors
    ///
    /// If the kernel refuses one. None of them is in the table then.
    pub(crate) fn insert(&mut self) -> Result<(), TableError> {
        let Self { publisher, staged } = self;
        let Some(Staged { new, shown, .. }) = staged else {
            return Ok(());
        };
        if new.is_empty() {
            return Ok(());
        }
        // Also those of a call that fails may have been in the table for a moment.
        *shown = true;
        let entries: Vec<_> = new.iter().map(|(key, new)| (*key, new.index)).collect();
        publisher.tables.insert_frontends(&entries)?;
        for (key, new) in new {
            publisher.frontends.insert(*key, new.clone());
        }
        Ok(())
    }

    /// Steps 3 to 5, which cannot fail.
    pub(crate) fn commit(mut self) {
        let Some(staged) = self.staged.take() else {
            return;
        };
        let publisher = &mut *self.publisher;
        let Staged {
            known,
            new,
            shown: _,
            source_ranges,
            open,
            rest,
        } = staged;
        // Each keeps a slice in use.
        drop(new);
        for (key, cell, slice, service) in known {
            if let Some(published) = publisher.frontends.get_mut(&key) {
                publisher.services.assign(published.index, service);
                if published.cell != cell {
                    publisher.tables.write_cell(published.index, cell);
                }
                published.cell = cell;
                published.slice = slice;
            }
        }
        publisher.adopt_source_ranges(&open, source_ranges);
        match rest {
            Rest::Stays { removed, touched } => {
                for key in removed {
                    publisher.remove(key);
                }
                for key in touched {
                    publisher.retire_unused(key);
                }
            }
            Rest::Goes(findings) => publisher.retire_findings(*findings),
        }
    }
}

impl<F: FromIp, T: Tables<F>> Drop for Change<'_, F, T> {
    /// Takes back what is not committed.
    fn drop(&mut self) {
        let Some(staged) = self.staged.take() else {
            return;
        };
        let publisher = &mut *self.publisher;
        let Staged {
            known,
            new,
            shown,
            source_ranges,
            open: _,
            rest,
        } = staged;
        drop(known);
        for (key, Published { index, .. }) in new {
            if publisher.frontends.remove(&key).is_some() {
                publisher.remove_entry(key, index);
            } else if shown {
                publisher.retired.frontends.push(index);
            } else {
                publisher.indexes.free(index);
            }
        }
        publisher.forget_source_ranges(source_ranges);
        match rest {
            Rest::Stays {
                removed: _,
                touched,
            } => {
                for key in touched {
                    publisher.retire_unused(key);
                }
            }
            Rest::Goes(findings) => {
                if let Err(error) = publisher.wait_for_readers() {
                    warn!(%error, "table space may be reused early");
                }
                // What was taken was not taken from the state that is gone back to.
                publisher.retired = Retired::default();
                publisher.exchange(findings.before);
                let groups = &publisher.groups;
                publisher.services.unsettle(|key| has_part(groups, key));
            }
        }
    }
}

impl<F: FromIp, T: Tables<F>> Publisher<F, T> {
    /// Step 4.
    fn remove(&mut self, key: FrontendKey<F>) {
        let Some(Published { index, .. }) = self.frontends.remove(&key) else {
            return;
        };
        self.retire_source_ranges(&key);
        self.remove_entry(key, index);
    }

    /// Removes the hash entry at `key`, which holds `index`.
    fn remove_entry(&mut self, key: FrontendKey<F>, index: u32) {
        match self.tables.remove_frontend(key) {
            Ok(()) => self.retired.frontends.push(index),
            // The entry stays, so its index must never mean anything else.
            Err(error) => {
                self.tables.write_cell(index, Cell::default());
                error!(?key, %error, "a removed frontend stays in the table, without backends");
            }
        }
    }
}
