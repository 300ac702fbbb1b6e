//! The key of a half: a packet's tuple before translation, as the words that slots have.

use crate::{Family, Tuple, V4, V6};

use super::{Meta, Role, Slot, slot::place};

/// A family whose tuples go into slots.
pub trait Wide: Family {
    /// Number of words of its two addresses.
    const ADDRESS_WORDS: usize;
    /// Number of words in a slot: whole cache lines.
    const SLOT_WORDS: usize;
    /// Its two addresses.
    type Addresses: Copy + Eq + core::fmt::Debug;

    /// Source and destination as words.
    fn pack(source: Self::Address, destination: Self::Address) -> Self::Addresses;
    /// Source and destination of these words.
    fn unpack(addresses: &Self::Addresses) -> (Self::Address, Self::Address);
    /// Returns the client of the first address word of a forward key: its address, in IPv6 its /64.
    fn client(first: u64) -> u64;
    /// The words.
    fn words(addresses: &Self::Addresses) -> &[u64];
    /// One word of the same addresses the other way round.
    fn reversed(addresses: &Self::Addresses, place: usize) -> u64;
    /// One word of the addresses at this place of a slot, the other way round.
    fn reversed_at<S: Slot>(slot: S, place: usize, number: usize) -> u64;
    /// The same addresses the other way round.
    fn all_reversed(addresses: &Self::Addresses) -> Self::Addresses;
    /// Returns whether the source of the first is the destination of the second.
    fn is_source_of(first: &Self::Addresses, second: &Self::Addresses) -> bool;
    /// The words of a slot from this place on.
    fn load<S: Slot>(slot: S, place: usize) -> Self::Addresses;
    /// Returns whether two slots have the same words from this place on.
    fn are_the_same<S: Slot>(first: S, second: S, place: usize) -> bool {
        (place..place + Self::ADDRESS_WORDS).all(|place| first.load(place) == second.load(place))
    }
    /// Returns whether a slot has these words from this place on.
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
    fn client(first: u64) -> u64 {
        first & 0xffff_ffff
    }

    #[inline(always)]
    fn words(addresses: &[u64; 1]) -> &[u64] {
        addresses
    }

    #[inline(always)]
    fn reversed(addresses: &[u64; 1], _: usize) -> u64 {
        addresses[0].rotate_left(32)
    }

    #[inline(always)]
    fn reversed_at<S: Slot>(slot: S, place: usize, _: usize) -> u64 {
        slot.load(place).rotate_left(32)
    }

    #[inline(always)]
    fn all_reversed(addresses: &[u64; 1]) -> [u64; 1] {
        [addresses[0].rotate_left(32)]
    }

    #[inline(always)]
    fn is_source_of(first: &[u64; 1], second: &[u64; 1]) -> bool {
        first[0] as u32 == (second[0] >> 32) as u32
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
    fn client(first: u64) -> u64 {
        first
    }

    #[inline(always)]
    fn words(addresses: &[u64; 4]) -> &[u64] {
        addresses
    }

    #[inline(always)]
    fn reversed(addresses: &[u64; 4], place: usize) -> u64 {
        addresses[place ^ 2]
    }

    #[inline(always)]
    fn reversed_at<S: Slot>(slot: S, place: usize, number: usize) -> u64 {
        slot.load(place + (number ^ 2))
    }

    #[inline(always)]
    fn all_reversed(addresses: &[u64; 4]) -> [u64; 4] {
        [addresses[2], addresses[3], addresses[0], addresses[1]]
    }

    #[inline(always)]
    fn is_source_of(first: &[u64; 4], second: &[u64; 4]) -> bool {
        first[0] == second[2] && first[1] == second[3]
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

/// The key of a half.
///
/// Words without a gap: the verifier wants all of what a function is given a pointer to.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Key<F: Wide> {
    /// Source and destination.
    pub addresses: F::Addresses,
    /// Source port and destination port, as the word that they are in a packet.
    pub ports: u32,
    /// The protocol's IANA number, and which half.
    kind: u32,
}

/// Bit of [`Key::kind`].
const REPLY: u32 = 1 << 8;

#[inline(always)]
const fn role_bit(role: Role) -> u32 {
    match role {
        Role::Forward => 0,
        Role::Reply => REPLY,
    }
}

impl<F: Wide> Key<F> {
    /// The key of packets with this tuple.
    #[inline(always)]
    pub fn new(tuple: &Tuple<F>, protocol: u8, role: Role) -> Self {
        let addresses = F::pack(tuple.source, tuple.destination);
        Self::of_words(addresses, tuple.port_word(), protocol, role)
    }

    /// The same, of a packet's addresses and its ports as the word that they are there.
    #[inline(always)]
    pub const fn of_words(addresses: F::Addresses, ports: u32, protocol: u8, role: Role) -> Self {
        Self {
            addresses,
            ports,
            kind: protocol as u32 | role_bit(role),
        }
    }

    /// The ports, the protocol and the half, as a number.
    #[inline(always)]
    pub const fn ports_and_kind(&self) -> u64 {
        self.ports as u64 | (self.kind as u64) << 32
    }

    /// The key with these addresses, and these [`Self::ports_and_kind`].
    #[inline(always)]
    pub const fn of_numbers(addresses: F::Addresses, ports_and_kind: u64) -> Self {
        Self {
            addresses,
            ports: ports_and_kind as u32,
            kind: (ports_and_kind >> 32) as u32,
        }
    }

    /// The protocol's IANA number.
    #[inline(always)]
    pub const fn protocol(&self) -> u8 {
        self.kind as u8
    }

    /// Returns the half that it is of.
    #[inline(always)]
    pub const fn role(&self) -> Role {
        if self.kind & REPLY == 0 {
            Role::Forward
        } else {
            Role::Reply
        }
    }

    /// The key of the half in this slot, which does not change meanwhile.
    #[inline(always)]
    pub fn of_slot<S: Slot>(slot: S) -> Self {
        let meta = Meta(slot.load(place::META));
        Self::of_words(
            F::load(slot, place::ADDRESSES),
            slot.load(place::PORTS) as u32,
            meta.protocol(),
            meta.role(),
        )
    }

    /// The tuple of packets that are found by it.
    #[inline(always)]
    pub fn tuple(&self) -> Tuple<F> {
        tuple(&self.addresses, self.ports)
    }

    /// Makes it that of packets that go the other way, in the same role.
    #[inline(always)]
    pub fn reverse(&mut self) {
        self.addresses = F::all_reversed(&self.addresses);
        self.ports = self.ports.rotate_left(16);
    }

    /// Makes it that of the half with this role.
    #[inline(always)]
    pub const fn set_role(&mut self, role: Role) {
        self.kind = self.kind & !REPLY | role_bit(role);
    }

    /// Returns whether a slot has this key's addresses and ports.
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
