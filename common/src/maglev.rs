//! Maglev tables among the slots, and the number by which a packet finds its entry.
//!
//! A frontend with such a table has the slots that it would have without, one a backend, so that a program without
//! knowledge of the table selects by weight. The slot behind them is the [`Header`]. The table may be shared: its
//! entries are positions in the list of backends, not indexes. It is a [`Seal`] and then the entries, eight or sixteen
//! in a slot.

use bytemuck::{Pod, Zeroable};

use crate::{
    Slot,
    connections::{Key, Role, Seeds, Wide},
};

/// The place of the table of a slice, in the slot behind the slice.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Header {
    /// The slot where the entries begin.
    pub entries: u32,
    /// Number of entries.
    pub size: u32,
    /// Size of an entry in bytes: 1 or 2.
    pub width: u32,
    /// As in the slots of the slice.
    pub affinity: u32,
}

/// Description of a table, in the slot before its entries.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Seal {
    /// A number for the backends and the size that the table was made of.
    pub fingerprint: u64,
    /// A number for the entries.
    pub checksum: u64,
}

const _: () = assert!(size_of::<Header>() == size_of::<Slot>());
const _: () = assert!(size_of::<Seal>() == size_of::<Slot>());

impl Header {
    /// Returns the header in this slot.
    #[inline(always)]
    pub const fn of(slot: &Slot) -> Self {
        let Slot {
            backend,
            alias,
            threshold,
            affinity,
        } = *slot;
        Self {
            entries: backend,
            size: alias,
            width: threshold,
            affinity,
        }
    }

    /// The slot and the byte in it where the entry begins that the number falls into.
    #[inline(always)]
    pub const fn locate(&self, number: u32) -> (u32, u32) {
        let entry = ((number as u64 * self.size as u64) >> 32) as u32;
        let byte = if self.width == 1 { entry } else { entry * 2 };
        let slot = self.entries.wrapping_add(byte / size_of::<Slot>() as u32);
        (slot, byte % size_of::<Slot>() as u32)
    }

    /// The position that the entry at this byte of the slot has. The bytes are taken from where they are: to ask
    /// for each word whether it is the one would be a guess, which the processor gets wrong.
    #[inline(always)]
    pub fn position(&self, slot: &Slot, byte: u32) -> u32 {
        // The first entry is in the first byte: machines that have Shunt are little-endian.
        if self.width == 1 {
            let entries: &[u8; 16] = bytemuck::cast_ref(slot);
            entries[byte as usize & 15].into()
        } else {
            let entries: &[u16; 8] = bytemuck::cast_ref(slot);
            entries[(byte as usize / 2) & 7].into()
        }
    }
}

/// The number of a packet of this connection, in its original direction.
#[inline(always)]
pub fn number<F: Wide>(key: &Key<F>) -> u32 {
    SEEDS.hash(key)
}

/// The number of all packets of a client, where it stays with its backend.
#[inline(always)]
pub fn client_number<F: Wide>(client: F::Address) -> u32 {
    let addresses = F::pack(client, F::Address::zeroed());
    SEEDS.hash(&Key::<F>::of_words(addresses, 0, 0, Role::Forward))
}

/// The same on every node, or they would not agree: the binary digits of pi. A client that knows them can choose its
/// ports so that one backend gets all its connections.
const SEEDS: Seeds = Seeds([
    0x243f_6a88,
    0x85a3_08d3,
    0x1319_8a2e,
    0x0370_7344,
    0xa409_3822,
    0x299f_31d0,
    0x082e_fa98,
    0xec4e_6c89,
    0x4528_21e6,
    0x38d0_1377,
]);

/// The slots of a table with these entries, with the fingerprint of the backends and the size that it was made of.
#[cfg(not(target_arch = "bpf"))]
pub fn fill_table(fingerprint: u64, entries: &[u16], width: u32) -> alloc::vec::Vec<Slot> {
    let per_slot = size_of::<Slot>() / width as usize;
    let mut slots = alloc::vec![Slot::default(); 1 + entries.len().div_ceil(per_slot)];
    let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut slots[1..]);
    if width == 1 {
        for (byte, entry) in bytes.iter_mut().zip(entries) {
            *byte = *entry as u8;
        }
    } else {
        for (place, entry) in bytes.chunks_exact_mut(2).zip(entries) {
            place.copy_from_slice(&entry.to_le_bytes());
        }
    }
    slots[0] = bytemuck::cast(Seal {
        fingerprint,
        checksum: checksum(slots[1..].iter().copied()),
    });
    slots
}

/// A number for entries: another one if a single word of them is another, and hardly the same if more
/// are.
#[cfg(not(target_arch = "bpf"))]
pub fn checksum(slots: impl IntoIterator<Item = Slot>) -> u64 {
    let words = slots.into_iter().flat_map(bytemuck::cast::<Slot, [u64; 2]>);
    words.fold(0xcbf2_9ce4_8422_2325, |sum: u64, word| {
        (sum ^ word)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15)
            .rotate_left(29)
    })
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use proptest::prelude::*;

    use super::*;
    use crate::{Tuple, V4, V6};

    proptest! {
        #[test]
        fn every_entry_is_found(
            entries in proptest::collection::vec(0u16.., 1..100),
            width in 1u32..=2,
            number: u32,
        ) {
            let mask = if width == 1 { 0xff } else { 0xffff };
            let slots = fill_table(7, &entries, width);
            let header = Header { entries: 1, size: entries.len() as u32, width, affinity: 0 };
            prop_assert_eq!(Header::of(&bytemuck::cast(header)), header);
            let (slot, byte) = header.locate(number);
            let wanted = ((u64::from(number) * entries.len() as u64) >> 32) as usize;
            prop_assert_eq!(
                header.position(&slots[slot as usize], byte),
                u32::from(entries[wanted] & mask)
            );
        }

        #[test]
        fn a_changed_entry_changes_the_checksum(
            entries in proptest::collection::vec(0u16.., 1..100),
            which: prop::sample::Index,
            other in 1u16..,
        ) {
            let mut changed = entries.clone();
            changed[which.index(entries.len())] ^= other;
            prop_assert_ne!(fill_table(7, &entries, 2)[0], fill_table(7, &changed, 2)[0]);
        }
    }

    #[test]
    fn numbers_are_the_same_everywhere() {
        let v4 = Tuple::<V4> {
            source: u32::from_ne_bytes([192, 0, 2, 1]),
            destination: u32::from_ne_bytes([10, 96, 0, 1]),
            source_port: 40_000_u16.to_be(),
            destination_port: 80_u16.to_be(),
        };
        let numbers = [
            number(&Key::new(&v4, 6, Role::Forward)),
            client_number::<V4>(v4.source),
            client_number::<V6>([1, 2, 3, 4]),
        ];
        assert_eq!(
            numbers,
            [1_538_368_564, 81_920_640, 1_706_117_038],
            "nodes of other versions choose otherwise"
        );
    }

    #[test]
    fn numbers_of_neighbours_are_spread() {
        let mut shares = [0u32; 16];
        for port in 0..16_000_u16 {
            let tuple = Tuple::<V4> {
                source: 1,
                destination: 2,
                source_port: port.to_be(),
                destination_port: 80,
            };
            shares[(number(&Key::new(&tuple, 6, Role::Forward)) >> 28) as usize] += 1;
        }
        let all: Vec<u32> = shares.to_vec();
        assert!(
            all.iter().all(|share| (850..1150).contains(share)),
            "{all:?}"
        );
    }
}
