//! Memory of the standard library's atomics, and a table in it.

use alloc::{boxed::Box, vec::Vec};
use core::marker::PhantomData;
use core::sync::atomic::{AtomicU64, Ordering};

use crate::{
    Tuple, V4,
    connections::{
        Connection, Hit, Key, Memory, REACH, Seeds, Slot, Table, Timeouts, Wide, homes_of,
        slots_for,
    },
};

/// Ticks a second.
pub(crate) const SECOND: u32 = 4;

pub(crate) static TIMEOUTS: Timeouts = Timeouts::linux(SECOND);
pub(crate) static SEEDS: Seeds = Seeds([
    0x9e37_79b9,
    0x7f4a_7c15,
    0xf39c_c060,
    0x5ced_c834,
    0x1082_276b,
    0xf3a2_7251,
    0xf86c_6a11,
    0xd0c1_8e95,
    0x2767_f0b1,
    0x53d2_04c5,
]);

/// A slot's words.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Words<'a>(pub &'a [AtomicU64]);

impl Slot for Words<'_> {
    fn load(self, place: usize) -> u64 {
        self.0[place].load(Ordering::Acquire)
    }

    fn store(self, place: usize, value: u64) {
        self.0[place].store(value, Ordering::Release);
    }

    fn store_half(self, place: usize, value: u32) {
        let mut old = self.load(place);
        while !self.exchange(place, old, old & !0xffff_ffff | u64::from(value)) {
            old = self.load(place);
        }
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        self.0[place]
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

/// The slots of a table.
#[derive(Debug)]
pub(crate) struct Heap<F> {
    words: Box<[AtomicU64]>,
    pub homes: u32,
    family: PhantomData<F>,
}

impl<F: Wide> Heap<F> {
    pub(crate) fn new(homes: u32) -> Self {
        Self::of(homes + REACH + 1, homes)
    }

    /// A table for so many halves of established connections.
    pub(crate) fn for_halves(halves: u32) -> Self {
        let slots = slots_for(halves);
        Self::of(slots, homes_of(slots))
    }

    fn of(slots: u32, homes: u32) -> Self {
        let words: Vec<AtomicU64> = (0..slots as usize * F::SLOT_WORDS)
            .map(|_| AtomicU64::new(0))
            .collect();
        Self {
            words: words.into(),
            homes,
            family: PhantomData,
        }
    }

    /// Writes zeros into a slot, as another program would.
    pub(crate) fn zero(&self, index: u32) {
        let begin = index as usize * F::SLOT_WORDS;
        for word in &self.words[begin..begin + F::SLOT_WORDS] {
            word.store(0, Ordering::Release);
        }
    }

    pub(crate) fn table(&self) -> Table<'_, &Self> {
        Table::new(self, self.homes, &SEEDS, &TIMEOUTS)
    }
}

impl<'a, F: Wide> Memory for &'a Heap<F> {
    type Family = F;
    type Slot = Words<'a>;

    fn slot(&self, index: u32) -> Option<Words<'a>> {
        let begin = index as usize * F::SLOT_WORDS;
        self.words.get(begin..begin + F::SLOT_WORDS).map(Words)
    }
}

/// The connection of a client to a frontend, through to a backend.
pub(crate) fn connection(
    client: u32,
    port: u16,
    backend: u32,
    protocol: u8,
    seen: u16,
) -> Connection<V4> {
    let tuple = |destination: u32, destination_port: u16| Tuple {
        source: client.to_be(),
        destination: destination.to_be(),
        source_port: port.to_be(),
        destination_port: destination_port.to_be(),
    };
    Connection {
        seen,
        generation: 7,
        backend,
        service: 3,
        ..Connection::new(&tuple(0x0a60_0001, 80), &tuple(backend, 8080), protocol)
    }
}

/// The half of a packet with this key, with all that it has.
pub(crate) fn looked_up<M: Memory>(
    table: &Table<'_, M>,
    key: &Key<M::Family>,
    opens: bool,
    now: u32,
) -> Option<Hit<M::Family, M::Slot>> {
    table.read(table.lookup(key, opens, now)?)
}
