//! The table's interface to its memory: the programs have a BPF array, the agent a mapping of it, the tests atomics of
//! the standard library and of the model checker.

use super::{Connection, Key, Survey, Table, Wide};

/// The words of one slot.
///
/// An implementation has to give at least C11's acquire for loads, release for stores, and both
/// for the exchange.
pub trait Slot: Copy {
    /// The word at this place: acquire.
    fn load(self, place: usize) -> u64;

    /// Writes the word at this place: release. For the slot's owner alone.
    fn store(self, place: usize, value: u64);

    /// Writes the lower half of the word at this place, and nothing else of it.
    fn store_half(self, place: usize, value: u32);

    /// Replaces the word at this place if it is `old`, and returns whether it was: acquire, release.
    fn exchange(self, place: usize, old: u64, new: u64) -> bool;
}

/// The slots of a table.
///
/// The table does its rare operations through the provided methods here, which take and give
/// numbers alone. The programs override them, by functions that the verifier looks at once each, where
/// the whole in one piece would be too much for it; they call the same code of [`Table`].
pub trait Memory: Copy {
    /// The family whose halves are in it.
    type Family: Wide;
    /// A reference to one slot.
    type Slot: Slot;

    /// The slot with this index; `None` if there is none.
    fn slot(&self, index: u32) -> Option<Self::Slot>;

    /// [`Table::search_here`].
    #[inline(always)]
    fn search(table: &Table<'_, Self>, key: &Key<Self::Family>, home: u32) -> u64 {
        table.search_here(key, home)
    }

    /// [`Table::survey_near_here`].
    #[inline(always)]
    fn survey_near(table: &Table<'_, Self>, begin: u32, now: u32) -> u64 {
        table.survey_near_here(begin, now, Survey::NOTHING)
    }

    /// [`Table::survey_crowd_here`].
    #[inline(always)]
    fn survey_crowd(table: &Table<'_, Self>, begin: u32, now: u32) -> u64 {
        table.survey_crowd_here(begin, now, Survey::NOTHING)
    }

    /// [`Table::survey_here`]. The programs have the kernel repeat this, since the verifier does not
    /// follow a loop of that length.
    #[inline(always)]
    fn survey(table: &Table<'_, Self>, begin: u32, end: u32, now: u32) -> u64 {
        table.survey_here(begin, end, now)
    }

    /// [`Table::dismiss_here`].
    #[inline(always)]
    fn dismiss(table: &Table<'_, Self>, seen: u64, begin: u32, now: u32) -> u64 {
        table.dismiss_here(seen, begin, now)
    }

    /// [`Table::win_here`].
    #[inline(always)]
    fn win(table: &Table<'_, Self>, index: u32, spilled: bool) -> u32 {
        table.win_here(index, spilled)
    }

    /// [`Table::leave_here`].
    #[inline(always)]
    fn leave(table: &Table<'_, Self>, index: u32, meta: u64) {
        table.leave_here(index, meta);
    }

    /// [`Table::expire_here`].
    #[inline(always)]
    fn expire(table: &Table<'_, Self>, index: u32, meta: u64, opens: bool, now: u32) -> bool {
        table.expire_here(index, meta, opens, now)
    }

    /// [`Table::forget_here`].
    #[inline(always)]
    fn forget(table: &Table<'_, Self>, index: u32, meta: u64) {
        table.forget_here(index, meta);
    }

    /// The same of a connection whose time is over, or whose backend is gone.
    #[inline(always)]
    fn lapse(table: &Table<'_, Self>, index: u32, meta: u64) {
        Self::forget(table, index, meta);
    }

    /// [`Table::open`], as a number.
    #[inline(always)]
    fn open(table: &Table<'_, Self>, new: &Connection<Self::Family>, now: u32) -> u32 {
        table
            .open(new, now)
            .map_or_else(|refused| refused as u32, |()| 0)
    }

    /// A connection gives way before its time.
    #[inline(always)]
    fn dropped_early(&self) {}

    /// [`Table::observe_here`].
    #[inline(always)]
    fn observe(table: &Table<'_, Self>, index: u32, meta: u64, signal: u64, now: u64) {
        table.observe_here(index, meta, signal, now);
    }
}
