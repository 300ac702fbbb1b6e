//! The table of connections with other addresses in place: each connection is entered anew, where its new
//! addresses have it found.

use std::{cell::Cell, marker::PhantomData};

use shunt_common::{
    Tuple,
    connections::{Connection, Key, Memory, Role, Slot, Table as Connections},
};

use super::Replaced;
use crate::{
    dump::{
        record::Dump,
        table::{Shape, Table},
    },
    trace::connections::{Reader, Shown},
};

/// A table in memory.
#[derive(Debug)]
struct Words<'a, F> {
    words: &'a [Cell<u64>],
    family: PhantomData<F>,
}

impl<F> Clone for Words<'_, F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F> Copy for Words<'_, F> {}

/// One of its slots.
#[derive(Debug, Clone, Copy)]
struct Line<'a>(&'a [Cell<u64>]);

impl Slot for Line<'_> {
    fn load(self, place: usize) -> u64 {
        self.0[place].get()
    }

    fn store(self, place: usize, value: u64) {
        self.0[place].set(value);
    }

    fn store_half(self, place: usize, value: u32) {
        let word = &self.0[place];
        word.set(word.get() & !0xffff_ffff | u64::from(value));
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        let word = &self.0[place];
        let is_old = word.get() == old;
        if is_old {
            word.set(new);
        }
        is_old
    }
}

impl<'a, F: Shown> Memory for Words<'a, F> {
    type Family = F;
    type Slot = Line<'a>;

    fn slot(&self, index: u32) -> Option<Line<'a>> {
        let begin = index as usize * F::SLOT_WORDS;
        self.words.get(begin..begin + F::SLOT_WORDS).map(Line)
    }
}

impl Replaced {
    /// `None` if the table is none of connections.
    pub(super) fn connections<F: Shown>(&mut self, table: &Table, dump: &Dump) -> Option<Table> {
        let Shape::Array(count) = table.shape else {
            return None;
        };
        if table.value_size != F::SLOT_WORDS * 8 {
            return None;
        }
        let words = count as usize * F::SLOT_WORDS;
        let old = vec![Cell::new(0); words];
        for (key, value) in &table.entries {
            let index = u32::from_ne_bytes(key.as_slice().try_into().ok()?);
            let begin = index as usize * F::SLOT_WORDS;
            for (word, bytes) in old.get(begin..)?.iter().zip(value.chunks_exact(8)) {
                word.set(bytemuck::pod_read_unaligned(bytes));
            }
        }
        let new = vec![Cell::new(0); words];
        let over = |words| Words::<F> {
            words,
            family: PhantomData,
        };
        let reader = Reader::of(dump);
        let writer = reader.clone().with_seeds(self.seeds);
        let from: Connections<'_, _> = reader.table(over(&old));
        let to: Connections<'_, _> = writer.table(over(&new));
        for key in table.entries.keys() {
            let index = u32::from_ne_bytes(key.as_slice().try_into().ok()?);
            let Some(mut snapshot) = from.snapshot(index) else {
                continue;
            };
            let connection = &snapshot.connection;
            let protocol = connection.forward.protocol();
            let [mut client, mut goes_on] = [connection.client(), connection.translated()];
            self.both(&mut client);
            self.both(&mut goes_on);
            snapshot.connection = Connection {
                forward: Key::new(&client, protocol, Role::Forward),
                reply: Key::new(&goes_on.reversed(), protocol, Role::Reply),
                ..*connection
            };
            // Where its new home has no room it is left out, as if it had been given up for another.
            let _ = to.carry(&snapshot, reader.now());
        }
        let slots = new.chunks(F::SLOT_WORDS).zip(0_u32..);
        let used = slots.filter(|(slot, _)| slot.iter().any(|word| word.get() != 0));
        let entries = used.map(|(slot, index)| {
            let value = slot.iter().flat_map(|word| word.get().to_ne_bytes());
            (index.to_ne_bytes().to_vec(), value.collect())
        });
        Some(Table {
            entries: entries.collect(),
            ..table.clone()
        })
    }

    fn both<F: Shown>(&mut self, tuple: &mut Tuple<F>) {
        for address in [&mut tuple.source, &mut tuple.destination] {
            let new = self.addresses.address(F::ip(*address));
            *address = F::address(new).unwrap_or(*address);
        }
    }
}
