//! A conntrack entry of a version that there is not: what an upgrade to another layout is tried with.
//!
//! The fields stand in another order, one is new, and the entry is longer.

use bytemuck::{Pod, Zeroable};

use super::previous;
use crate::{Family, Folded, Tuple, V4, V6};

/// As [`previous::ConntrackEntry`], and more.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConntrackEntry<F: Family> {
    /// When the last packet of this direction was seen.
    pub last_seen: u32,
    /// What packets of this direction have been seen.
    pub seen: u16,
    /// The backend's generation when the connection was made.
    pub generation: u16,
    /// Index of the connection's backend in the backend table.
    pub backend: u32,
    /// What a checksum over the ports changes by.
    pub port_change: Folded,
    /// What a checksum over the addresses changes by.
    pub address_change: Folded,
    /// The tuple that the packet leaves with.
    pub translated: Tuple<F>,
    /// Which layout the entry came in, 0 if it is this one.
    pub came_as: u32,
    /// Zero.
    pub reserved: [u32; 4],
}

const _: () = assert!(size_of::<ConntrackEntry<V4>>() == 48);
const _: () = assert!(size_of::<ConntrackEntry<V6>>() == 72);

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for ConntrackEntry<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for ConntrackEntry<F> {}

impl<F: Family> ConntrackEntry<F> {
    /// Makes this what an entry of the version before becomes. In place: a program has no room for
    /// another on its stack.
    #[inline]
    pub const fn set_from(&mut self, entry: &previous::ConntrackEntry<F>) {
        self.last_seen = entry.last_seen;
        self.seen = entry.seen;
        self.generation = entry.generation;
        self.backend = entry.backend;
        self.port_change = entry.port_change;
        self.address_change = entry.address_change;
        self.translated = entry.translated;
        self.came_as = 3;
        self.reserved = [0; 4];
    }

    /// Makes `entry`, of the version before, what this is there.
    #[inline]
    pub const fn put_into(&self, entry: &mut previous::ConntrackEntry<F>) {
        entry.last_seen = self.last_seen;
        entry.seen = self.seen;
        entry.generation = self.generation;
        entry.backend = self.backend;
        entry.port_change = self.port_change;
        entry.address_change = self.address_change;
        entry.translated = self.translated;
        entry.padding = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_entry_says_survives_both_ways() {
        let mut before = previous::ConntrackEntry::<V4>::zeroed();
        before.last_seen = 9;
        before.seen = 5;
        before.generation = 7;
        before.backend = 3;
        before.translated.source = 77;
        let mut after = ConntrackEntry::zeroed();
        after.set_from(&before);
        let mut back = previous::ConntrackEntry::zeroed();
        after.put_into(&mut back);
        assert_eq!(back, before);
        assert_eq!((after.seen, after.came_as), (5, 3));
    }
}
