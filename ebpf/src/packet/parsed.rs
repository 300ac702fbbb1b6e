//! A packet as it was read: once, into a small tuple that everything else uses.

use core::cell::Cell;

use shunt_common::{Family, Tuple, connections::Signal};

use crate::packet::{
    family::Options,
    link::Link,
    log::Direction,
    network::Fragment,
    offset::{Extent, Offset},
};

/// A packet that concerns a connection of a protocol that we translate.
///
/// No field is an enum with fields of its own: of one that leaves bytes undefined, the compiler
/// writes whatever register is at hand, and the verifier refuses a pointer there.
#[repr(C)]
pub(crate) struct Packet<F: Family> {
    /// The addresses and ports as they came; 0 for the ports of a later fragment. Of an ICMP
    /// error those of a packet that goes its way: the inner one's, reversed.
    pub tuple: Tuple<F>,
    /// Signal to its connection. An ICMP error has none: it is not of the connection.
    pub signal: Signal,
    /// Datagram that it is a part of, if it is one.
    pub fragment: Fragment,
    /// Its inner packet, if it is an ICMP error.
    pub inner: Inner<F>,
    /// Offset of the packet's end.
    pub end: u32,
    /// The index of the interface where it is.
    pub interface: u32,
    /// The number of the service port that it is of, as soon as that is known; 0: of none.
    pub service: Cell<u32>,
    /// Offset of the network header.
    pub network: Offset,
    /// Offset of what follows the network header.
    pub transport: Offset,
    /// Offset of what follows the transport header.
    pub payload: Offset,
    /// Length of the transport header without options.
    pub least_length: u16,
    pub link: Link,
    pub form: Form,
    /// The transport protocol; that of the inner packet if this is an ICMP error.
    pub protocol: u8,
    /// True if it may be the first of a connection: any UDP packet, a TCP SYN, an SCTP INIT.
    pub may_be_first: bool,
    /// Requirements of its IPv4 options on a router.
    pub options: Options,
    /// True if its network header came as its sender wrote it, as far as its own checksum shows.
    pub is_intact: bool,
    /// True if only this node's own backends are asked for it, as far as there are any: another node has
    /// sent it here for them, or would be sent it by the same choice.
    pub is_for_own: bool,
    /// True if it is for a NodePort of the node that has sent it here: this node's own of the same number
    /// stands for that one.
    pub is_for_other_node: bool,
    /// True if a backend's node has handed it on to here, so that it goes to no further node.
    pub is_handed_on: bool,
    /// True if it is of a share of its frontend's connections that is refused, so that no node is to serve it.
    pub is_refused: bool,
    /// Direction in its connection, as far as that was found out: for the packet log alone.
    pub direction: Direction,
}

/// Form of a packet, as its connection sees it.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// One of its packets, whole.
    Whole,
    /// The begin of one, with the ports.
    FirstFragment,
    /// Another part of one, without ports.
    LaterFragment,
    /// An ICMP error about one.
    Error,
}

/// The inner packet of an ICMP error.
#[repr(C)]
pub(crate) struct Inner<F: Family> {
    /// Sender of the error.
    pub reporter: F::Address,
    /// Offset of the inner packet's network header.
    pub network: Offset,
    /// Offset of its transport header.
    pub transport: Offset,
}

impl<F: Family> Packet<F> {
    /// No packet yet: where one is read into.
    #[inline(always)]
    pub(crate) const fn none() -> Self {
        // SAFETY: numbers, and enums that have a variant 0.
        unsafe { core::mem::zeroed() }
    }

    /// Returns whether this is an ICMP error about a packet of the connection.
    #[inline(always)]
    pub(crate) const fn is_error(&self) -> bool {
        matches!(self.form, Form::Error)
    }

    /// Returns the extent of its headers.
    #[inline(always)]
    pub(crate) fn extent(&self) -> Extent {
        Extent {
            network: self.network.get(),
            payload: self.payload.get(),
        }
    }
}
