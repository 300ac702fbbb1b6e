//! The choice of a backend by the packet alone: each packet of a flow gets the same one, and on each node
//! that has the same backends.

use shunt_common::{Address as _, Cell, Tuple};

use crate::{
    lb::{
        choice::at_random,
        maglev::{self, Maglev},
    },
    maps::{backends::Choice, tables::Tables},
    packet::parsed::Packet,
};

/// Chooses a backend of the cell's slice, which is not empty: by its Maglev table, if it has one. With
/// session affinity, by the client's address alone.
#[inline(always)]
pub(crate) fn choose<F: Maglev>(cell: Cell, packet: &Packet<F>) -> Option<Choice<F>> {
    if cell.has(Cell::MAGLEV) {
        let slot = maglev::slot_for(packet, cell)?;
        return Choice::at(F::slots().get(slot)?.backend);
    }
    let (_, choice) = at_random(cell, hash(cell, packet)?)?;
    Some(choice)
}

/// The number by which the packet falls into one of the cell's slots.
#[inline(always)]
fn hash<F: Tables>(cell: Cell, packet: &Packet<F>) -> Option<u32> {
    let affinity = F::slots().get(cell.offset())?.affinity;
    let Tuple {
        source,
        destination,
        source_port,
        destination_port,
    } = packet.tuple;
    let mut hash = Hash(u32::from(packet.protocol));
    for word in source.words() {
        hash.add(*word);
    }
    if affinity == 0 {
        for word in destination.words() {
            hash.add(*word);
        }
        hash.add(u32::from(source_port) << 16 | u32::from(destination_port));
    }
    Some(hash.finish())
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
