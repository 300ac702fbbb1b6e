//! Connection tracking: two entries a connection, each with all that its packets need.

use bytemuck::{Pod, Zeroable};

use crate::{Family, Tuple, V4, V6};

pub mod version_3;

pub use self::version_3::ConntrackEntry;

/// Which way a packet goes; the two ways have keys of their own, because a backend may itself be
/// the client of a frontend.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the client, as it comes in: client to frontend.
    Original = 0,
    /// From the backend, as it comes in: backend to client.
    Reply = 1,
}

/// Key of the conntrack table: a packet's tuple before translation.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConntrackKey<F: Family> {
    /// The packet's addresses and ports.
    pub tuple: Tuple<F>,
    /// Transport protocol, IANA number.
    pub protocol: u8,
    /// A [`Direction`].
    pub direction: u8,
    /// Zero.
    pub padding: u16,
}

const _: () = assert!(size_of::<ConntrackKey<V4>>() == 16, "12 + 1 + 1 + 2");
const _: () = assert!(size_of::<ConntrackKey<V6>>() == 40, "36 + 1 + 1 + 2");

// SAFETY: `repr(C)`, every field is `Zeroable`.
unsafe impl<F: Family> Zeroable for ConntrackKey<F> {}
// SAFETY: `repr(C)`, every field is `Pod`, and the assertions above rule out padding.
unsafe impl<F: Family> Pod for ConntrackKey<F> {}

impl<F: Family> ConntrackKey<F> {
    /// The key of a packet with this tuple.
    #[inline]
    pub const fn new(tuple: Tuple<F>, protocol: u8, direction: Direction) -> Self {
        Self {
            tuple,
            protocol,
            direction: direction as u8,
            padding: 0,
        }
    }

    /// The same of a packet's addresses and its ports, as the word that they are there.
    ///
    /// It is written word by word, as the kernel's hash reads it: a word that was just written in
    /// parts is not there for reading before the last of them has gone to the cache.
    #[inline]
    pub fn of_packet(
        source: &F::Address,
        destination: &F::Address,
        ports: u32,
        protocol: u8,
        direction: Direction,
    ) -> Self {
        let words = Words {
            source: *source,
            destination: *destination,
            ports,
            kind: u32::from_ne_bytes([protocol, direction as u8, 0, 0]),
        };
        // SAFETY: the two are equally long, as asserted below, and a key may have any bytes.
        unsafe { core::mem::transmute_copy(&words) }
    }
}

/// A [`ConntrackKey`] as words.
#[repr(C)]
struct Words<A> {
    source: A,
    destination: A,
    ports: u32,
    kind: u32,
}

const _: () = assert!(size_of::<Words<u32>>() == size_of::<ConntrackKey<V4>>());
const _: () = assert!(size_of::<Words<[u32; 4]>>() == size_of::<ConntrackKey<V6>>());

impl<F: Family> ConntrackEntry<F> {
    /// Any packet at all.
    pub const PACKET: u16 = 1;
    /// A TCP segment that ends this direction.
    pub const FIN: u16 = 2;
    /// A TCP segment that ends the connection.
    pub const RST: u16 = 4;
    /// The client keeps its address and port: packets change at the other end alone.
    pub const KEEPS_CLIENT: u16 = 8;

    /// Whether a connection is over of which the two directions have seen this much: both sides
    /// have ended, or one has reset.
    #[inline]
    pub const fn is_over(original: u16, reply: u16) -> bool {
        (original | reply) & Self::RST != 0 || original & reply & Self::FIN != 0
    }

    /// Whether the two are of one connection: the same translation, to the same backend.
    #[inline]
    pub fn is_of(&self, other: &Self) -> bool {
        self.translated == other.translated
            && self.backend == other.backend
            && self.generation == other.generation
    }

    /// Takes over what `other`, of the same connection, has seen besides; gives whether that was
    /// anything.
    #[inline]
    pub const fn absorb(&mut self, other: &Self) -> bool {
        let seen = self.seen | other.seen;
        // The clock begins anew at its end.
        let is_later = other.last_seen.wrapping_sub(self.last_seen) as i32 > 0;
        let is_more = seen != self.seen || is_later;
        self.seen = seen;
        if is_later {
            self.last_seen = other.last_seen;
        }
        is_more
    }
}
