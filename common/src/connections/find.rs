//! Looking a half up.

use crate::Tuple;

use super::{
    Hints, Key, Memory, Meta, Role, Slot, Table, Times, Wide, key, pair::Half, slot::place,
};

/// A live half that was found, as it was at one instant.
#[derive(Debug, Clone, Copy)]
pub struct Hit<F: Wide, S> {
    /// The slot's index.
    pub index: u32,
    /// The slot.
    pub slot: S,
    /// Its version, and the bits that had been seen.
    pub meta: Meta,
    /// Tick of the last packet, and the changes of checksums.
    pub times: Times,
    /// The ports that the packet leaves with.
    pub ports: u32,
    /// The addresses that the packet leaves with.
    pub addresses: F::Addresses,
}

impl<F: Wide, S: Slot> Hit<F, S> {
    /// The half that was found.
    #[inline(always)]
    pub const fn half(&self) -> Half<S> {
        Half {
            index: self.index,
            slot: self.slot,
            meta: self.meta,
        }
    }

    /// The tuple that the packet leaves with.
    #[inline(always)]
    pub fn translated(&self) -> Tuple<F> {
        key::tuple(&self.addresses, self.ports)
    }
}

/// Number of words in a cache line.
const LINE_WORDS: usize = 8;

/// Result of a search that finds nothing.
const NOTHING: u64 = u64::MAX;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// The half with this key, whether its time is over or not, with all that it has.
    #[inline(always)]
    pub fn find(&self, key: &Key<F>) -> Option<Hit<F, M::Slot>> {
        self.read(self.find_half(key)?)
    }

    /// The half with this key, whether its time is over or not.
    #[inline(always)]
    pub fn find_half(&self, key: &Key<F>) -> Option<Half<M::Slot>> {
        let index = self.home(key);
        let slot = self.memory.slot(index)?;
        let meta = Meta(slot.load(place::META));
        if meta.is(key.protocol(), key.role(), false) && key.is_at(slot) {
            return Some(Half { index, slot, meta });
        }
        if !Hints(slot.load(place::HINTS)).is_any() {
            return None;
        }
        match M::search(self, key, index) {
            NOTHING => None,
            found => self.at(found as u32, (found >> 32) as u32),
        }
    }

    /// Reads the lines of two keys' homes before they are wanted. A CPU waits at once for all loads
    /// that are near to each other in its program, so nothing is between these.
    #[inline(always)]
    pub fn approach(&self, keys: [&Key<F>; 2]) {
        let [first, second] = keys.map(|key| self.home(key));
        let (Some(first), Some(second)) = (self.memory.slot(first), self.memory.slot(second))
        else {
            return;
        };
        for line in 0..F::SLOT_WORDS / LINE_WORDS {
            first.load(line * LINE_WORDS);
            second.load(line * LINE_WORDS);
        }
    }

    /// Looks for the half with this key. Returns the index of its slot, and above it the version of
    /// the slot; all bits for nothing.
    #[inline(always)]
    pub fn search_here(&self, key: &Key<F>, home: u32) -> u64 {
        let found = self.search(home, |index, slot| {
            let meta = Meta(slot.load(place::META));
            let fits = meta.is(key.protocol(), key.role(), false) && key.is_at(slot);
            fits.then(|| u64::from(index) | u64::from(meta.version()) << 32)
        });
        found.unwrap_or(NOTHING)
    }

    /// The half in the slot at `index` in its use `version`; `None` if it has died.
    #[inline(always)]
    pub fn at(&self, index: u32, version: u32) -> Option<Half<M::Slot>> {
        let slot = self.memory.slot(index)?;
        let meta = Meta(slot.load(place::META));
        let is_same = meta.is_live() && meta.version() == version;
        is_same.then_some(Half { index, slot, meta })
    }

    /// All that a half has; `None` if it has died since it was found.
    #[inline(always)]
    pub fn read(&self, half: Half<M::Slot>) -> Option<Hit<F, M::Slot>> {
        let Half { index, slot, meta } = half;
        let hit = Hit {
            index,
            slot,
            meta,
            times: Times(slot.load(place::TIMES)),
            ports: (slot.load(place::PORTS) >> 32) as u32,
            addresses: F::load(slot, place::ADDRESSES + F::ADDRESS_WORDS),
        };
        Meta(slot.load(place::META))
            .is_same_half(meta)
            .then_some(hit)
    }

    /// Returns whether another slot than `own`, at `index`, has its key, in a live half or one that is pending.
    #[inline(always)]
    pub(super) fn has_rival(&self, own: M::Slot, home: u32, index: u32) -> bool {
        let meta = Meta(own.load(place::META));
        let is_rival = |at: u32, slot: M::Slot| {
            let other = Meta(slot.load(place::META));
            let fits = other.is(meta.protocol(), meta.role(), true)
                && at != index
                && slot.load(place::PORTS) as u32 == own.load(place::PORTS) as u32
                && F::are_the_same(slot, own, place::ADDRESSES);
            fits.then_some(())
        };
        self.search(home, is_rival).is_some()
    }

    /// The first that is given for one of the slots in which a half of this home may be.
    #[inline(always)]
    fn search<T>(&self, home: u32, fits: impl Fn(u32, M::Slot) -> Option<T>) -> Option<T> {
        // Its own home, and the next one if keys have gone there.
        for step in 0..2 {
            let home = home + step;
            let slot = self.memory.slot(home)?;
            if let Some(found) = fits(home, slot) {
                return Some(found);
            }
            let hints = Hints(slot.load(place::HINTS));
            let mut distances = hints.distances();
            // Six at most, in any of the places.
            for _ in 0..6 {
                if distances == 0 {
                    break;
                }
                let distance = distances as u32 & 0xff;
                distances >>= 8;
                if distance == 0 {
                    continue;
                }
                let index = home + distance;
                if let Some(found) = fits(index, self.memory.slot(index)?) {
                    return Some(found);
                }
            }
            if !hints.has_spilled() {
                break;
            }
        }
        None
    }

    /// The index of the backend and its generation when the connection was made; `None` if it has
    /// died since it was found. Of a forward half.
    #[inline(always)]
    pub fn backend(&self, half: &Half<M::Slot>) -> Option<(u32, u16)> {
        debug_assert!(half.meta.role() == Role::Forward);
        let facts = super::Facts(half.slot.load(place::FACTS));
        let link = super::Link(half.slot.load(place::LINK));
        Meta(half.slot.load(place::META))
            .is_same_half(half.meta)
            .then_some((facts.backend(), link.generation()))
    }

    /// The port that the client's packets go on from, network order. Of a forward half.
    #[inline(always)]
    pub fn source_port(&self, half: &Half<M::Slot>) -> u16 {
        debug_assert!(half.meta.role() == Role::Forward);
        (half.slot.load(place::PORTS) >> 32) as u16
    }
}
