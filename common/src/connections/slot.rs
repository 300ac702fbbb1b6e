//! The words of a slot, and what they are made of.

use crate::elapsed;

/// Places of the words. The addresses of an IPv4 half take one word each for key and translation,
/// those of an IPv6 half four.
pub mod place {
    /// [`crate::connections::Meta`].
    pub const META: usize = 0;
    /// [`crate::connections::Hints`]: of the home, not of the half that is here.
    pub const HINTS: usize = 1;
    /// [`crate::connections::Link`].
    pub const LINK: usize = 2;
    /// [`crate::connections::Facts`].
    pub const FACTS: usize = 3;
    /// [`crate::connections::Times`].
    pub const TIMES: usize = 4;
    /// The key's ports, then the translated ones.
    pub const PORTS: usize = 5;
    /// The key's addresses; the translated ones follow.
    pub const ADDRESSES: usize = 6;
}

/// The place of the other half: index (25 bits), version (23), and the generation that the backend had when the
/// connection was made (16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Link(pub u64);

impl Link {
    /// To the slot at `index` (25 bits) in its use `version` (23 bits), of a backend of this generation.
    #[inline(always)]
    pub const fn new(index: u32, version: u32, generation: u16) -> Self {
        Self(index as u64 | (version as u64) << 25 | (generation as u64) << 48)
    }

    /// The other half's place.
    #[inline(always)]
    pub const fn index(self) -> u32 {
        self.0 as u32 & ((1 << 25) - 1)
    }

    /// Returns the version of that place.
    #[inline(always)]
    pub const fn version(self) -> u32 {
        (self.0 >> 25) as u32 & ((1 << 23) - 1)
    }

    /// Returns whether it is to the slot at `index` in its use `version`.
    #[inline(always)]
    pub const fn is_to(self, index: u32, version: u32) -> bool {
        (self.0 ^ Self::new(index, version, 0).0) & ((1 << 48) - 1) == 0
    }

    /// The backend's generation.
    #[inline(always)]
    pub const fn generation(self) -> u16 {
        (self.0 >> 48) as u16
    }
}

/// In a forward half the backend's index; in a reply half a *mark*: the SYN's sequence number, then the acknowledgment
/// number that a client shows to have seen the SYN-ACK, then what an established connection awaits (TCP), or the tick
/// of the first packet (UDP). Then the service's index (31 bits), and which of the two halves it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Facts(pub u64);

impl Facts {
    /// A backend's index that is none: which one it was is not known any more.
    pub const LOST_BACKEND: u32 = u32::MAX - 1;

    /// Of a forward half.
    #[inline(always)]
    pub const fn of_forward(backend: u32, service: u32) -> Self {
        Self(backend as u64 | (service as u64 & 0x7fff_ffff) << 32)
    }

    /// Of a reply half.
    #[inline(always)]
    pub const fn of_reply(mark: u32, service: u32) -> Self {
        Self(Self::of_forward(mark, service).0 | 1 << 63)
    }

    /// Returns whether it is of a reply half.
    #[inline(always)]
    pub const fn is_of_reply(self) -> bool {
        self.0 >> 63 != 0
    }

    /// Of a forward half.
    #[inline(always)]
    pub const fn backend(self) -> u32 {
        self.0 as u32
    }

    /// Of a reply half.
    #[inline(always)]
    pub const fn mark(self) -> u32 {
        self.0 as u32
    }

    /// The service's index.
    #[inline(always)]
    pub const fn service(self) -> u32 {
        (self.0 >> 32) as u32 & 0x7fff_ffff
    }

    /// The same with another mark.
    #[inline(always)]
    #[must_use]
    pub const fn with_mark(self, mark: u32) -> Self {
        Self(self.0 & !0xffff_ffff | mark as u64)
    }
}

/// For how many ticks a connection is not looked at again once both its halves were seen: 4 to 41 s.
/// A power of two.
///
/// A look reads a cache line of the other half. With many connections each has few packets a tick, so
/// a look a tick would be one for nearly every packet, and would double what the packet costs.
pub const LOOK: u32 = 64;

/// The tick of the last packet of this half's direction, and what the checksums over addresses and
/// over ports change by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times(pub u64);

impl Times {
    /// At tick `now`.
    #[inline(always)]
    pub const fn new(now: u32, address_change: u16, port_change: u16) -> Self {
        Self(now as u64 | (address_change as u64) << 32 | (port_change as u64) << 48)
    }

    /// The tick of the last packet.
    #[inline(always)]
    pub const fn last_seen(self) -> u32 {
        self.0 as u32
    }

    /// Returns whether the first packet since [`LOOK`] ticks or longer comes at tick `now`, or the first of the
    /// next such span.
    #[inline(always)]
    pub const fn is_first_of_span(self, now: u32) -> bool {
        (self.last_seen() ^ now) & !(LOOK - 1) != 0
    }

    /// Returns the change of a checksum over addresses.
    #[inline(always)]
    pub const fn address_change(self) -> u16 {
        (self.0 >> 32) as u16
    }

    /// Returns the change of one over ports.
    #[inline(always)]
    pub const fn port_change(self) -> u16 {
        (self.0 >> 48) as u16
    }

    /// The same at tick `now`.
    #[inline(always)]
    #[must_use]
    pub const fn at(self, now: u32) -> Self {
        Self(self.0 & !0xffff_ffff | now as u64)
    }

    /// Returns the number of ticks since the last packet; 0 if another CPU, whose clock is ahead, has just seen one.
    #[inline(always)]
    pub const fn idle(self, now: u32) -> u32 {
        elapsed(self.last_seen(), now)
    }
}
