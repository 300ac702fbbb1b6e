//! Connection tracking up to version 3 of the layouts: two entries a connection, in a hash of the
//! kernel's. Such tables hand over to those of [`crate::connections`].

use bytemuck::{Pod, Zeroable};

use crate::{Family, SCTP, TCP, Tuple, V4, V6, connections::Meta};

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
}

impl<F: Family> ConntrackEntry<F> {
    /// Any packet at all.
    pub const PACKET: u16 = 1;
    /// A TCP segment that ends this direction.
    pub const FIN: u16 = 2;
    /// A TCP segment that ends the connection.
    pub const RST: u16 = 4;
    /// The client keeps its address and port: packets change at the other end alone.
    pub const KEEPS_CLIENT: u16 = 8;

    /// What the halves of a connection in a table of ours have seen, as bits of [`Meta`], whose two
    /// directions have seen this much: first the client's half. This version kept no more of a
    /// handshake than that the backend has spoken: then the connection is taken for established.
    ///
    /// Without branches: the verifier would follow each of them through all that comes after.
    #[inline(always)]
    pub const fn halves(protocol: u8, original: u16, reply: u16) -> (u16, u16) {
        let is_opened = matches!(protocol, TCP | SCTP) as u16;
        let has_replied = (reply & Self::PACKET) / Self::PACKET;
        let both = (is_opened * Meta::OPENED) | (has_replied * Meta::ASSURED);
        let answered = has_replied * (Meta::REPLIED | (is_opened * Meta::SYN_ACK));
        (
            both | Self::ends(original, reply),
            both | answered | Self::ends(reply, original),
        )
    }

    /// What a half has seen of its side's end, and of the other's.
    #[inline(always)]
    const fn ends(own: u16, other: u16) -> u16 {
        let fin = (own & Self::FIN) / Self::FIN * Meta::FIN;
        let reset = (own & Self::RST) / Self::RST * Meta::RESET;
        let peer_fin = (other & Self::FIN) / Self::FIN * Meta::PEER_FIN;
        let peer_reset = (other & Self::RST) / Self::RST * Meta::PEER_RESET;
        fin | reset | peer_fin | peer_reset
    }
}
