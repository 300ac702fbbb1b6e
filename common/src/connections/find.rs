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
    /// Which version of it, and what had been seen.
    pub meta: Meta,
    /// When the last packet was seen, and what checksums change by.
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

/// No slot: tables are smaller.
const NONE: u32 = u32::MAX;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// The half with this key, whether its time is over or not.
    #[inline(always)]
    pub fn find(&self, key: &Key<F>) -> Option<Hit<F, M::Slot>> {
        let (index, slot, meta) = self.search(key, self.home(key), NONE, false)?;
        self.read(index, slot, meta)
    }

    /// What a half has; `None` if it has died since its `meta` was read.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    pub(super) fn read(&self, index: u32, slot: M::Slot, meta: Meta) -> Option<Hit<F, M::Slot>> {
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

    /// Whether another slot than `own` has this key, in a live half or one that is pending.
    #[inline(always)]
    pub(super) fn has_rival(&self, key: &Key<F>, home: u32, own: u32) -> bool {
        self.search(key, home, own, true).is_some()
    }

    #[inline(always)]
    fn search(
        &self,
        key: &Key<F>,
        home: u32,
        skipped: u32,
        also_pending: bool,
    ) -> Option<(u32, M::Slot, Meta)> {
        let fits = |index: u32, slot: M::Slot| {
            let meta = Meta(slot.load(place::META));
            let fits = meta.is(key.protocol, key.role, also_pending)
                && index != skipped
                && key.is_at(slot);
            fits.then_some((index, slot, meta))
        };
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
    pub fn backend(&self, hit: &Hit<F, M::Slot>) -> Option<(u32, u16)> {
        debug_assert!(hit.meta.role() == Role::Forward);
        let facts = super::Facts(hit.slot.load(place::FACTS));
        let link = super::Link(hit.slot.load(place::LINK));
        Meta(hit.slot.load(place::META))
            .is_same_half(hit.meta)
            .then_some((facts.backend(), link.generation()))
    }
}
