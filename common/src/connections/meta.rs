//! A slot's first word: whose it is, and what has been seen of its half.

use crate::{SCTP, TCP};

/// One of a connection's halves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Found by the client's packets; it owns the connection.
    Forward,
    /// Found by the backend's packets.
    Reply,
}

/// The kind of a slot; the module's documentation lists the permitted accesses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It has no owner.
    Free,
    /// A processor took it and writes.
    Busy,
    /// It is written and not yet to be found.
    Pending,
    /// It is half of a connection.
    Live,
}

/// Version (23 bits), kind (2), role (1), whether the client keeps its address and port (1), a bit that distinguishes
/// the state before a mending from the one after it, 4 bits of zero, distance from home (8), protocol (8), what has
/// been seen (16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta(pub u64);

const VERSION: u64 = (1 << 23) - 1;
const KIND: u32 = 23;
const PENDING_OR_LIVE: u64 = 1 << (KIND + 1);
const REPLY: u64 = 1 << 25;
const KEEPS_CLIENT: u64 = 1 << 26;
const MENDED: u64 = 1 << 27;
const DISTANCE: u32 = 32;
const PROTOCOL: u32 = 40;
const SEEN: u32 = 48;

const KINDS: u64 = 3 << KIND;

impl Meta {
    /// The connection is not given up for room. In the reply half: a copy.
    pub const ASSURED: u16 = 1;
    /// The connection began with a SYN or INIT; another one was picked up in its course.
    pub const OPENED: u16 = 2;
    /// Any packet but a reset came from the backend. In the reply half.
    pub const REPLIED: u16 = 4;
    /// A SYN-ACK or INIT ACK came from the backend. In the reply half.
    pub const SYN_ACK: u16 = 8;
    /// This side has ended.
    pub const FIN: u16 = 16;
    /// This side has reset the connection, and neither has spoken since.
    pub const RESET: u16 = 32;
    /// As [`Self::RESET`], of the other side.
    pub const PEER_RESET: u16 = 64;
    /// The backend answered the SYN by what answers none: it has a connection with this tuple that
    /// is not ours. In the reply half.
    pub const MISTAKEN: u16 = 128;
    /// As [`Self::FIN`], of the other side.
    pub const PEER_FIN: u16 = 256;
    /// The backend has sent data before the client acknowledged its SYN-ACK (TCP Fast Open, RFC 7413).
    /// In the reply half.
    pub const EARLY_DATA: u16 = 512;
    /// The client has sent a SYN in the established connection. The mark is the number that acknowledges
    /// it. In the reply half.
    pub const AWAITS_SYN_ACK: u16 = 1024;
    /// The client has sent a FIN that the backend has not acknowledged. The mark is the number that
    /// acknowledges it. In the reply half.
    pub const AWAITS_FIN_ACK: u16 = 2048;
    /// The backend has answered a SYN in the established connection by an acknowledgment. The mark is its
    /// number, which the client's RST has. In the reply half.
    pub const CHALLENGED: u16 = 4096;
    /// The host's routes depended on more than the destination when the connection was opened, so its replies may have
    /// to leave by another interface than the stack chooses. In both halves.
    pub const RULED: u16 = 8192;

    /// The slot's owner writes this, and never a version twice in a row.
    #[inline(always)]
    pub const fn version(self) -> u32 {
        (self.0 & VERSION) as u32
    }

    /// Returns the kind of the slot.
    #[inline(always)]
    pub const fn kind(self) -> Kind {
        match (self.0 >> KIND) & 3 {
            0 => Kind::Free,
            1 => Kind::Busy,
            2 => Kind::Pending,
            _ => Kind::Live,
        }
    }

    /// Returns whether it is half of a connection.
    #[inline(always)]
    pub const fn is_live(self) -> bool {
        self.0 & KINDS == KINDS
    }

    /// Returns the half that it is.
    #[inline(always)]
    pub const fn role(self) -> Role {
        if self.0 & REPLY == 0 {
            Role::Forward
        } else {
            Role::Reply
        }
    }

    /// Returns whether the connection goes on from the client's own address and port.
    #[inline(always)]
    pub const fn keeps_client(self) -> bool {
        self.0 & KEEPS_CLIENT != 0
    }

    /// Returns the distance of the slot from the home that has its hint; 0 at home.
    #[inline(always)]
    pub const fn distance(self) -> u32 {
        (self.0 >> DISTANCE) as u32 & 0xff
    }

    /// The IANA number of the protocol.
    #[inline(always)]
    pub const fn protocol(self) -> u8 {
        (self.0 >> PROTOCOL) as u8
    }

    /// Returns the bits that were seen of this direction.
    #[inline(always)]
    pub const fn seen(self) -> u16 {
        (self.0 >> SEEN) as u16
    }

    /// Returns whether all of this has been seen.
    #[inline(always)]
    pub const fn has(self, seen: u16) -> bool {
        self.seen() & seen == seen
    }

    /// Returns whether any of this has been seen.
    #[inline(always)]
    pub const fn has_any(self, seen: u16) -> bool {
        self.seen() & seen != 0
    }

    /// The same with `set` seen and `cleared` not.
    #[inline(always)]
    #[must_use]
    pub const fn seeing(self, set: u16, cleared: u16) -> Self {
        Self((self.0 | (set as u64) << SEEN) & !((cleared as u64) << SEEN))
    }

    /// Returns whether the connection is over, as far as this half knows: the other half decides.
    #[inline(always)]
    pub const fn seems_over(self) -> bool {
        if self.has(Self::ASSURED) {
            self.has(Self::FIN | Self::PEER_FIN)
        } else {
            self.has_any(Self::RESET | Self::PEER_RESET)
        }
    }

    /// Returns whether one of the sides has ended or reset.
    #[inline(always)]
    pub const fn is_ending(self) -> bool {
        self.has_any(Self::FIN | Self::PEER_FIN | Self::RESET | Self::PEER_RESET)
    }

    /// Returns whether its connection's sides have ended it, as far as this half alone knows.
    #[inline(always)]
    pub const fn is_over(self) -> bool {
        let has_both = self.has(Self::FIN | Self::PEER_FIN);
        match self.protocol() {
            TCP => {
                self.has_any(Self::RESET | Self::PEER_RESET) || has_both && self.has(Self::ASSURED)
            }
            SCTP => self.has_any(Self::RESET | Self::PEER_RESET) || has_both,
            _ => false,
        }
    }

    /// Returns whether a half of this protocol and role is here: a live one, or also one that is pending.
    #[inline(always)]
    pub const fn is(self, protocol: u8, role: Role, also_pending: bool) -> bool {
        let kinds = if also_pending { PENDING_OR_LIVE } else { KINDS };
        let mask = kinds | REPLY | 0xff << PROTOCOL;
        let reply = if matches!(role, Role::Reply) {
            REPLY
        } else {
            0
        };
        self.0 & mask == kinds | reply | (protocol as u64) << PROTOCOL
    }

    /// Returns whether `self` and `other` are of one half, whatever has been seen of it.
    #[inline(always)]
    pub const fn is_same_half(self, other: Self) -> bool {
        (self.0 ^ other.0) & (VERSION | KINDS) == 0
    }

    /// Returns the word of a slot that an owner takes, at this distance from its new home.
    #[inline(always)]
    #[must_use]
    pub const fn taken(self, distance: u32) -> Self {
        Self((self.0 + 1) & VERSION | 1 << KIND | ((distance & 0xff) as u64) << DISTANCE)
    }

    /// Returns the word of a slot that its owner frees.
    #[inline(always)]
    #[must_use]
    pub const fn freed(self) -> Self {
        Self(self.0 & VERSION)
    }

    /// A half as its owner enters it, pending, in the slot that has been taken with `self`.
    #[inline(always)]
    #[must_use]
    pub const fn pending(self, protocol: u8, role: Role, keeps_client: bool, seen: u16) -> Self {
        let mut word = self.0 & (VERSION | 0xff << DISTANCE) | 2 << KIND;
        if matches!(role, Role::Reply) {
            word |= REPLY;
        }
        if keeps_client {
            word |= KEEPS_CLIENT;
        }
        Self(word | (protocol as u64) << PROTOCOL | (seen as u64) << SEEN)
    }

    /// The same half with another link than before: who has read that one fails to take the half.
    #[inline(always)]
    #[must_use]
    pub const fn mended(self) -> Self {
        Self(self.0 ^ MENDED)
    }

    /// The same half, live.
    #[inline(always)]
    #[must_use]
    pub const fn live(self) -> Self {
        Self(self.0 | KINDS)
    }
}
