//! The choice of a backend by the packet alone: each packet of a flow gets the same one, and on each node
//! that has the same backends.

use shunt_common::{Address as _, Cell, Family, Slot, Tuple};

use crate::{
    lb::{
        choice::at_random,
        maglev::{self, Maglev},
    },
    maps::{addresses::has_dsr_sources, backends::Choice, constants::Constants, tables::Tables},
};

/// What packets of a flow get.
pub(crate) enum Share<F: Tables> {
    /// This backend.
    Backend(Choice<F>),
    /// None: they are of a share that is refused.
    Refused,
}

/// Chooses a backend of the cell's slice, which is not empty, for packets with this tuple: by its Maglev
/// table, if it has one. With session affinity, by the client's address alone.
#[inline(always)]
pub(crate) fn choose<F: Maglev>(cell: Cell, tuple: &Tuple<F>, protocol: u8) -> Option<Share<F>> {
    let index = if cell.has(Cell::MAGLEV) {
        let slot = maglev::slot_here(tuple, protocol, cell)?;
        F::slots().get(slot)?.backend
    } else {
        at_random::<F>(cell, hash(cell, tuple, protocol)?)?.1
    };
    match Choice::at(index) {
        Some(choice) => Some(Share::Backend(choice)),
        None => (index == Slot::REFUSED).then_some(Share::Refused),
    }
}

/// The number by which packets with this tuple fall into one of the cell's slots.
#[inline(always)]
fn hash<F: Tables>(cell: Cell, tuple: &Tuple<F>, protocol: u8) -> Option<u32> {
    let affinity = F::slots().get(cell.offset())?.affinity;
    Some(number(tuple, protocol, affinity == 0))
}

/// A number by which envelopes tell the flow with this tuple from others, if they are to.
#[inline(always)]
pub(crate) fn label<F: Constants>(tuple: &Tuple<F>, protocol: u8) -> Option<u32> {
    has_dsr_sources::<F>().then(|| labelled(tuple, protocol))
}

/// The number. A function of its own: its callers' stack is short.
#[inline(never)]
fn labelled<F: Family>(tuple: &Tuple<F>, protocol: u8) -> u32 {
    number(tuple, protocol, true)
}

/// A number of the flow with this tuple, or else of its client's address.
#[inline(always)]
fn number<F: Family>(tuple: &Tuple<F>, protocol: u8, of_flow: bool) -> u32 {
    let Tuple {
        source,
        destination,
        source_port,
        destination_port,
    } = *tuple;
    let mut hash = Hash(u32::from(protocol));
    for word in source.words() {
        hash.add(*word);
    }
    if of_flow {
        for word in destination.words() {
            hash.add(*word);
        }
        hash.add(u32::from(source_port) << 16 | u32::from(destination_port));
    }
    hash.finish()
}

/// A hash without a secret: nodes have none in common. It is the one of `MurmurHash3_x86_32`.
struct Hash(u32);

impl Hash {
    #[inline(always)]
    fn add(&mut self, word: u32) {
        let word = word.wrapping_mul(0xcc9e_2d51).rotate_left(15);
        let mixed = (self.0 ^ word.wrapping_mul(0x1b87_3593)).rotate_left(13);
        self.0 = mixed.wrapping_mul(5).wrapping_add(0xe654_6b64);
    }

    #[inline(always)]
    const fn finish(self) -> u32 {
        let mixed = (self.0 ^ self.0 >> 16).wrapping_mul(0x85eb_ca6b);
        let mixed = (mixed ^ mixed >> 13).wrapping_mul(0xc2b2_ae35);
        mixed ^ mixed >> 16
    }
}
