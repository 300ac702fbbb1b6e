//! Frontends: the key that a packet's destination is looked up by, and the cell with the place of its backends.

use bytemuck::{Pod, Zeroable};

use crate::{Family, V4, V6};

/// Key of the frontend table; its value is the frontend's index, a `u32` that never changes while
/// the frontend exists.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FrontendKey<F: Family> {
    /// The frontend's address, network order.
    pub address: F::Address,
    /// The frontend's port, network order.
    pub port: u16,
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// The scope of the entry: [`Self::EVERYONE`], [`Self::THIS_NODE`] or [`Self::WITH_DRAINING`].
    pub scope: u8,
}

const _: () = assert!(size_of::<FrontendKey<V4>>() == 8, "4 + 2 + 1 + 1");
const _: () = assert!(size_of::<FrontendKey<V6>>() == 20, "16 + 2 + 1 + 1");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for FrontendKey<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for FrontendKey<F> {}

impl<F: Family> FrontendKey<F> {
    /// The same frontend in another scope.
    #[inline]
    #[must_use]
    pub const fn scoped(self, scope: u8) -> Self {
        Self { scope, ..self }
    }

    /// The frontend itself.
    pub const EVERYONE: u8 = 0;
    /// The frontend of clients on this node in its place, if its cell has the flag ([`Cell::TWO_SETS`]), or of packets
    /// that came in an envelope ([`Cell::DSR`]).
    pub const THIS_NODE: u8 = 1;
    /// The frontend with its draining backends, which take no new connections, as if they took them, if its cell has
    /// the flag ([`Cell::DRAINING`]).
    pub const WITH_DRAINING: u8 = 2;

    /// A key of `address` and `port` in network order.
    #[inline]
    pub const fn new(address: F::Address, port: u16, protocol: u8) -> Self {
        let [low, high] = port.to_ne_bytes();
        let words = Words {
            address,
            rest: u32::from_ne_bytes([low, high, protocol, Self::EVERYONE]),
        };
        // SAFETY: the two are equally long, as asserted below, and a key may have any bytes.
        unsafe { core::mem::transmute_copy(&words) }
    }
}

/// A [`FrontendKey`] as words. It is written word by word, as the kernel's hash reads it: a word that
/// was just written in parts is not there for reading before the last of them has gone to the cache.
#[repr(C)]
struct Words<A> {
    address: A,
    rest: u32,
}

const _: () = assert!(size_of::<Words<u32>>() == size_of::<FrontendKey<V4>>());
const _: () = assert!(size_of::<Words<[u32; 4]>>() == size_of::<FrontendKey<V6>>());

/// The place of a frontend's slice of slots, in one word that is read with one load and replaced with one store.
///
/// | bits | what |
/// |---|---|
/// | 0..28 | offset of the slice in the slot table |
/// | 28..48 | number of slots; one a backend |
/// | 48..64 | flags |
///
/// The word 0 is a frontend without backends.
#[repr(transparent)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Pod, Zeroable)]
pub struct Cell(u64);

impl Cell {
    /// The largest number of slots in the slot table.
    pub const MAX_OFFSET: u32 = 1 << Self::OFFSET_BITS;
    /// The largest number of slots of one frontend.
    pub const MAX_COUNT: u32 = (1 << Self::COUNT_BITS) - 1;

    /// Every backend has weight 0: the slice is to be listed, not to be selected from.
    pub const UNUSABLE: u16 = 1;
    /// Only clients on this node are served: the NodePort of another node's address.
    pub const THIS_NODE_ONLY: u16 = 2;

    /// A packet that no backend can have is dropped: there are backends elsewhere. Without this
    /// flag it is rejected.
    pub const DROPS: u16 = 4;

    /// Clients on this node have another entry of the frontend table in this one's place.
    pub const TWO_SETS: u16 = 8;
    /// The set is that of the frontend's traffic policy Local.
    pub const LOCAL_SET: u16 = 16;
    /// Only clients in the frontend's source ranges are served.
    pub const RANGES: u16 = 32;
    /// Of its two lists of source ranges the second one holds.
    pub const SECOND_RANGES: u16 = 64;
    /// A NodePort, of whatever node's address: processes of the node itself reach it at their
    /// loopback addresses too.
    pub const NODE_PORT: u16 = 128;
    /// A service's address inside the cluster.
    pub const CLUSTER_IP: u16 = 256;

    /// It selects by a Maglev table, whose place is in the slot behind its slots ([`crate::maglev`]). Versions that do
    /// not know this flag select by the slots, by weight.
    pub const MAGLEV: u16 = 512;

    /// Clients elsewhere get their replies straight from the backend's node: their packets go there in
    /// an envelope. Those that came in one have another entry of the frontend table in this one's place,
    /// of the backends here.
    pub const DSR: u16 = 1024;

    /// Some of the backends of a frontend in mode dsr are draining. Packets of their connections have another entry
    /// of the frontend table in this one's place ([`FrontendKey::WITH_DRAINING`]).
    pub const DRAINING: u16 = 2048;

    /// Connections of clients elsewhere go on from this node's address, too, if their backend is on this node, behind
    /// an interface with programs. Versions that do not know this flag keep the client's address there.
    pub const MASQUERADE: u16 = 4096;

    /// A share of its connections is refused, and its client's SYNs with one sequence number all get the same: a refusal
    /// stays one if its ICMP error is not sent. Versions that do not know this flag draw for each SYN.
    pub const REFUSES: u16 = 8192;

    const OFFSET_BITS: u32 = 28;
    const COUNT_BITS: u32 = 20;
    const FLAGS_SHIFT: u32 = Self::OFFSET_BITS + Self::COUNT_BITS;

    /// A cell that points at `count` slots from `offset` on.
    ///
    /// `offset` is below [`Self::MAX_OFFSET`], `count` at most [`Self::MAX_COUNT`]; higher bits
    /// are cut off.
    #[must_use]
    pub const fn new(offset: u32, count: u32, flags: u16) -> Self {
        let offset = (offset & (Self::MAX_OFFSET - 1)) as u64;
        let count = (count & Self::MAX_COUNT) as u64;
        Self(offset | count << Self::OFFSET_BITS | (flags as u64) << Self::FLAGS_SHIFT)
    }

    /// The cell that a table's word holds.
    #[inline]
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        Self(word)
    }

    /// The word to store.
    #[inline]
    pub const fn word(self) -> u64 {
        self.0
    }

    /// Returns the offset of the slice in the slot table.
    #[inline]
    pub const fn offset(self) -> u32 {
        self.0 as u32 & (Self::MAX_OFFSET - 1)
    }

    /// Returns the number of slots in the slice.
    #[inline]
    pub const fn count(self) -> u32 {
        (self.0 >> Self::OFFSET_BITS) as u32 & Self::MAX_COUNT
    }

    /// Returns whether all flags of `flags` are set.
    #[inline]
    pub const fn has(self, flags: u16) -> bool {
        (self.0 >> Self::FLAGS_SHIFT) as u16 & flags == flags
    }

    /// The same cell with these flags besides its own.
    #[inline]
    #[must_use]
    pub const fn with(self, flags: u16) -> Self {
        Self(self.0 | (flags as u64) << Self::FLAGS_SHIFT)
    }

    /// The same cell without these flags.
    #[inline]
    #[must_use]
    pub const fn without(self, flags: u16) -> Self {
        Self(self.0 & !((flags as u64) << Self::FLAGS_SHIFT))
    }

    /// All flags.
    #[inline]
    pub const fn flags(self) -> u16 {
        (self.0 >> Self::FLAGS_SHIFT) as u16
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cell_gives_back_what_it_was_made_of(
            offset in 0..Cell::MAX_OFFSET,
            count in 0..=Cell::MAX_COUNT,
            flags: u16,
        ) {
            let cell = Cell::from_word(Cell::new(offset, count, flags).word());
            prop_assert_eq!((cell.offset(), cell.count(), cell.flags()), (offset, count, flags));
            prop_assert!(cell.has(flags));
            prop_assert_eq!(cell.without(flags), Cell::new(offset, count, 0));
        }
    }
}
