//! The programs' connection tables, slot by slot, also what no listing shows: connections whose time
//! is over.

use std::{
    marker::PhantomData,
    os::fd::{AsFd as _, AsRawFd as _},
    sync::atomic::{AtomicU64, Ordering},
};

use anyhow::{Result, ensure};
use aya::maps::MapData;
use memmap2::{MmapOptions, MmapRaw};
use shunt_common::connections::{
    Memory, Meta, Role, Seeds, Slot, Snapshot, Table, Timeouts, Wide, place,
};

/// A family's table, mapped.
#[derive(Debug)]
pub struct ConnectionSlots<F> {
    memory: MmapRaw,
    slots: usize,
    family: PhantomData<F>,
}

/// The words of one slot.
#[derive(Debug)]
pub struct Words<'a, F>(&'a ConnectionSlots<F>, usize);

impl<F: Wide> ConnectionSlots<F> {
    /// Maps the table.
    ///
    /// # Errors
    ///
    /// If it is another one, or the kernel does not map it.
    pub fn map(map: &MapData) -> Result<Self> {
        let info = map.info()?;
        ensure!(
            info.value_size() as usize == F::SLOT_WORDS * size_of::<u64>(),
            "slots of another size"
        );
        let slots = info.max_entries() as usize;
        let memory = MmapOptions::new()
            .len(slots * F::SLOT_WORDS * size_of::<u64>())
            .map_raw(map.fd().as_fd().as_raw_fd())?;
        Ok(Self {
            memory,
            slots,
            family: PhantomData,
        })
    }

    /// All slots.
    pub fn all(&self) -> impl Iterator<Item = Words<'_, F>> {
        (0..self.slots).map(|slot| Words(self, slot))
    }

    /// The connections of which there are both halves.
    pub fn connections(&self) -> Vec<Snapshot<F>> {
        // A snapshot is taken slot by slot: nothing is looked for, nor judged by its time.
        let (seeds, timeouts) = (Seeds([0; 10]), Timeouts::linux(1));
        let table = Table::new(self, 1, &seeds, &timeouts);
        let slots = 0..self.slots as u32;
        slots.filter_map(|slot| table.snapshot(slot)).collect()
    }

    /// Returns the number of halves of this direction.
    pub fn halves(&self, role: Role) -> usize {
        let metas = self.all().map(|slot| Meta(slot.load(place::META)));
        metas
            .filter(|meta| meta.is_live() && meta.role() == role)
            .count()
    }

    /// Makes the table as it was at first. No program may use it meanwhile.
    pub fn clear(&self) {
        for slot in self.all() {
            (0..F::SLOT_WORDS).for_each(|place| slot.store(place, 0));
        }
    }
}

impl<F: Wide> Words<'_, F> {
    /// The word at this place.
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a mapping begins at a page, and slots are words"
    )]
    pub fn word(&self, place: usize) -> &AtomicU64 {
        let Self(table, slot) = self;
        assert!(*slot < table.slots && place < F::SLOT_WORDS);
        let begin = table.memory.as_mut_ptr().cast::<u64>();
        // SAFETY: within the mapping, aligned, and accessed atomically by all.
        unsafe { AtomicU64::from_ptr(begin.add(slot * F::SLOT_WORDS + place)) }
    }
}

impl<F> Clone for Words<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Words<'_, F> {}

impl<'a, F: Wide> Memory for &'a ConnectionSlots<F> {
    type Family = F;
    type Slot = Words<'a, F>;

    fn slot(&self, index: u32) -> Option<Words<'a, F>> {
        let index = index as usize;
        (index < self.slots).then_some(Words(self, index))
    }
}

impl<F: Wide> Slot for Words<'_, F> {
    fn load(self, place: usize) -> u64 {
        self.word(place).load(Ordering::Acquire)
    }

    fn store(self, place: usize, value: u64) {
        self.word(place).store(value, Ordering::Release);
    }

    fn store_half(self, place: usize, value: u32) {
        let word = self.word(place);
        let upper = word.load(Ordering::Acquire) >> 32 << 32;
        word.store(upper | u64::from(value), Ordering::Release);
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        let word = self.word(place);
        word.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}
