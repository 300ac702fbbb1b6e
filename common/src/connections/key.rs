//! What a half is found by: a packet's tuple before translation, as the words that slots have.

use crate::{Family, Tuple, V4, V6};

use super::{Meta, Role, Slot, slot::place};

/// A family whose tuples go into slots.
pub trait Wide: Family {
    /// How many words its two addresses take.
    const ADDRESS_WORDS: usize;
    /// How many words a slot has: whole cache lines.
    const SLOT_WORDS: usize;
    /// Its two addresses.
    type Addresses: Copy + Eq + core::fmt::Debug;

    /// Source and destination as words.
    fn pack(source: Self::Address, destination: Self::Address) -> Self::Addresses;
    /// Source and destination of these words.
    fn unpack(addresses: &Self::Addresses) -> (Self::Address, Self::Address);
    /// The words.
    fn words(addresses: &Self::Addresses) -> &[u64];
    /// The words of a slot from this place on.
    fn load<S: Slot>(slot: S, place: usize) -> Self::Addresses;
    /// Whether a slot has these words from this place on.
    fn are_at<S: Slot>(addresses: &Self::Addresses, slot: S, place: usize) -> bool;
}

#[inline(always)]
const fn pair(first: u32, second: u32) -> u64 {
    first as u64 | (second as u64) << 32
}

#[inline(always)]
const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Wide for V4 {
    const ADDRESS_WORDS: usize = 1;
    const SLOT_WORDS: usize = 8;
    type Addresses = [u64; 1];

    #[inline(always)]
    fn pack(source: u32, destination: u32) -> [u64; 1] {
        [pair(source, destination)]
    }

    #[inline(always)]
    fn unpack(addresses: &[u64; 1]) -> (u32, u32) {
        halves(addresses[0])
    }

    #[inline(always)]
    fn words(addresses: &[u64; 1]) -> &[u64] {
        addresses
    }

    #[inline(always)]
    fn load<S: Slot>(slot: S, place: usize) -> [u64; 1] {
        [slot.load(place)]
    }

    #[inline(always)]
    fn are_at<S: Slot>(addresses: &[u64; 1], slot: S, place: usize) -> bool {
        slot.load(place) == addresses[0]
    }
}

impl Wide for V6 {
    const ADDRESS_WORDS: usize = 4;
    const SLOT_WORDS: usize = 16;
    type Addresses = [u64; 4];

    #[inline(always)]
    fn pack(source: [u32; 4], destination: [u32; 4]) -> [u64; 4] {
        [
            pair(source[0], source[1]),
            pair(source[2], source[3]),
            pair(destination[0], destination[1]),
            pair(destination[2], destination[3]),
        ]
    }

    #[inline(always)]
    fn unpack(addresses: &[u64; 4]) -> ([u32; 4], [u32; 4]) {
        let address = |first: u64, second: u64| {
            let ((a, b), (c, d)) = (halves(first), halves(second));
            [a, b, c, d]
        };
        (
            address(addresses[0], addresses[1]),
            address(addresses[2], addresses[3]),
        )
    }

    #[inline(always)]
    fn words(addresses: &[u64; 4]) -> &[u64] {
        addresses
    }

    #[inline(always)]
    fn load<S: Slot>(slot: S, place: usize) -> [u64; 4] {
        [
            slot.load(place),
            slot.load(place + 1),
            slot.load(place + 2),
            slot.load(place + 3),
        ]
    }

    #[inline(always)]
    fn are_at<S: Slot>(addresses: &[u64; 4], slot: S, place: usize) -> bool {
        slot.load(place) == addresses[0]
            && slot.load(place + 1) == addresses[1]
            && slot.load(place + 2) == addresses[2]
            && slot.load(place + 3) == addresses[3]
    }
}

const _: () = assert!(place::ADDRESSES + 2 * V4::ADDRESS_WORDS <= V4::SLOT_WORDS);
const _: () = assert!(place::ADDRESSES + 2 * V6::ADDRESS_WORDS <= V6::SLOT_WORDS);
const _: () = assert!(
    V4::SLOT_WORDS % 8 == 0 && V6::SLOT_WORDS % 8 == 0,
    "whole lines"
);

/// What a half is found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<F: Wide> {
    /// Source and destination.
    pub addresses: F::Addresses,
    /// Source port and destination port, as the word that they are in a packet.
    pub ports: u32,
    /// IANA number.
    pub protocol: u8,
    /// Which half.
    pub role: Role,
}

impl<F: Wide> Key<F> {
    /// The key of packets with this tuple.
    #[inline(always)]
    pub fn new(tuple: &Tuple<F>, protocol: u8, role: Role) -> Self {
        Self {
            addresses: F::pack(tuple.source, tuple.destination),
            ports: tuple.port_word(),
            protocol,
            role,
        }
    }

    /// The key of the half in this slot, which does not change meanwhile.
    #[inline(always)]
    pub fn of_slot<S: Slot>(slot: S) -> Self {
        let meta = Meta(slot.load(place::META));
        Self {
            addresses: F::load(slot, place::ADDRESSES),
            ports: slot.load(place::PORTS) as u32,
            protocol: meta.protocol(),
            role: meta.role(),
        }
    }

    /// Whether a slot has this key's addresses and ports.
    #[inline(always)]
    pub fn is_at<S: Slot>(&self, slot: S) -> bool {
        slot.load(place::PORTS) as u32 == self.ports
            && F::are_at(&self.addresses, slot, place::ADDRESSES)
    }
}

/// The tuple of these words.
#[inline(always)]
pub(crate) fn tuple<F: Wide>(addresses: &F::Addresses, ports: u32) -> Tuple<F> {
    let (source, destination) = F::unpack(addresses);
    let [source_port, destination_port] = bytemuck::cast(ports);
    Tuple {
        source,
        destination,
        source_port,
        destination_port,
    }
}
