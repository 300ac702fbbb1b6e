//! What the table needs of its memory: the programs have a BPF array, the agent a mapping of it,
//! the tests atomics of the standard library and of the model checker.

/// The words of one slot.
///
/// An implementation has to give at least C11's acquire for loads, release for stores, and both
/// for the exchange.
pub trait Slot: Copy {
    /// The word at this place: acquire.
    fn load(self, place: usize) -> u64;

    /// Writes the word at this place: release. For the slot's owner alone.
    fn store(self, place: usize, value: u64);

    /// Replaces the word at this place if it is `old`, and says whether it was: acquire, release.
    fn exchange(self, place: usize, old: u64, new: u64) -> bool;
}

/// The slots of a table.
pub trait Memory {
    /// A reference to one.
    type Slot: Slot;

    /// The slot with this index; `None` if there is none.
    fn slot(&self, index: u32) -> Option<Self::Slot>;
}
