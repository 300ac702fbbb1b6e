//! The table of connections of one family, mapped into our memory: read, and at a handover written,
//! by the code that the programs are made of.

use std::marker::PhantomData;

use aya::maps::MapData;
use shunt_common::connections::{
    Memory, REACH, Seeds, Slot, Snapshot, Table, Timeouts, Wide, homes_of,
};

use crate::{error::DatapathError, maps::family::FromIp, sys::shared_words::SharedWords};

/// Returns the number of halves that fit into a table of so many slots, if all are of established connections.
pub(crate) const fn capacity_of(slots: u32) -> u32 {
    let homes = slots.saturating_sub(REACH + 1);
    (2 * homes as u64).div_ceil(3) as u32
}

/// A family's table.
#[derive(Debug)]
pub(crate) struct ConnectionTable<F> {
    words: SharedWords,
    slots: u32,
    seeds: Seeds,
    timeouts: Timeouts,
    family: PhantomData<F>,
}

/// Access to the table: reading alone, or writing too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    Read,
    Write,
}

impl<F: FromIp + Wide> ConnectionTable<F> {
    /// Maps the table `map`, where these seeds determine the places of connections.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, or it is another kind of table.
    pub(crate) fn map(
        map: &MapData,
        access: Access,
        seeds: Seeds,
        timeouts: Timeouts,
    ) -> Result<Self, DatapathError> {
        let name = F::MAPS.conntrack.name;
        let info = map
            .info()
            .map_err(|source| DatapathError::Map { name, source })?;
        if info.value_size() as usize != F::SLOT_WORDS * size_of::<u64>() {
            return Err(DatapathError::Missing(name));
        }
        let slots = info.max_entries();
        let words = slots as usize * F::SLOT_WORDS;
        let words = match access {
            Access::Read => SharedWords::read_only(map.fd(), words),
            Access::Write => SharedWords::writable(map.fd(), words),
        };
        Ok(Self {
            words: words.map_err(|source| DatapathError::Mapping { name, source })?,
            slots,
            seeds,
            timeouts,
            family: PhantomData,
        })
    }

    /// Returns the number of slots.
    pub(crate) const fn slots(&self) -> u32 {
        self.slots
    }

    /// Returns the number of halves that fit.
    pub(crate) const fn capacity(&self) -> u32 {
        capacity_of(self.slots)
    }

    /// The table, as the programs have it.
    pub(crate) const fn table(&self) -> Table<'_, Slots<'_, F>> {
        let slots = Slots {
            words: &self.words,
            slots: self.slots,
            family: PhantomData,
        };
        Table::new(slots, homes_of(self.slots), &self.seeds, &self.timeouts)
    }

    /// The connections whose forward halves are in slots from `begin` to before `end` and whose time
    /// is not over at tick `now`.
    pub(crate) fn live(&self, begin: u32, end: u32, now: u32) -> impl Iterator<Item = Snapshot<F>> {
        self.snapshots(begin, end)
            .filter(move |snapshot| self.is_live(snapshot, now))
    }

    /// All connections of these slots that packets still find at tick `now`: also those that are doubtful,
    /// after their time.
    pub(crate) fn remembered(
        &self,
        begin: u32,
        end: u32,
        now: u32,
    ) -> impl Iterator<Item = Snapshot<F>> {
        self.snapshots(begin, end)
            .filter(move |snapshot| !self.table().is_forgotten(snapshot, now))
    }

    /// Returns whether the connection's time is not over at tick `now`.
    pub(crate) fn is_live(&self, snapshot: &Snapshot<F>, now: u32) -> bool {
        !self.table().is_expired(snapshot, now)
    }

    fn snapshots(&self, begin: u32, end: u32) -> impl Iterator<Item = Snapshot<F>> {
        let table = self.table();
        (begin..end.min(self.slots)).filter_map(move |index| table.snapshot(index))
    }
}

/// The slots of a table.
#[derive(Debug)]
pub(crate) struct Slots<'a, F> {
    words: &'a SharedWords,
    slots: u32,
    family: PhantomData<F>,
}

impl<F> Clone for Slots<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Slots<'_, F> {}

impl<'a, F: Wide> Memory for Slots<'a, F> {
    type Family = F;
    type Slot = Words<'a>;

    fn slot(&self, index: u32) -> Option<Words<'a>> {
        (index < self.slots).then(|| Words {
            words: self.words,
            begin: index as usize * F::SLOT_WORDS,
        })
    }
}

/// The words of one slot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a> {
    words: &'a SharedWords,
    begin: usize,
}

impl Slot for Words<'_> {
    fn load(self, place: usize) -> u64 {
        self.words.load(self.begin + place)
    }

    fn store(self, place: usize, value: u64) {
        self.words.store(self.begin + place, value);
    }

    fn store_half(self, place: usize, value: u32) {
        let mut old = self.load(place);
        while !self.exchange(place, old, old & !0xffff_ffff | u64::from(value)) {
            old = self.load(place);
        }
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        self.words.exchange(self.begin + place, old, new)
    }
}

#[cfg(test)]
mod tests {
    use shunt_common::connections::slots_for;

    use super::*;

    #[test]
    fn a_table_has_the_room_that_was_asked_for() {
        for halves in [1, 2, 3, 5, 63, 64, 65_536, 524_288, 4_194_304] {
            let slots = slots_for(halves);
            assert_eq!(capacity_of(slots), halves, "{slots} slots");
            assert!((slots - 256..slots - 31).contains(&homes_of(slots)));
        }
        assert_eq!(
            (homes_of(1), capacity_of(1)),
            (1, 0),
            "nothing is translated"
        );
    }
}
