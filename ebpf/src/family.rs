//! What the address families do differently: tables, headers, checksums. Everything else is one
//! generic source.

use aya_ebpf::{bindings::bpf_fib_lookup, programs::TcContext};
use shunt_common::{Folded, Sum, Tuple};

use crate::{config::Config, frame::Unreadable, functions::Functions, maps::Tables};

/// The kernel's side of an address family.
pub trait Family: Tables + Config + Functions {
    /// The network header without options or extension headers.
    type Header: Header<Self>;

    /// Whether the kernel says that the packet is of this family.
    fn carried_by(context: &TcContext) -> bool;

    /// Reads the network header at `offset`. Whether the packet is as long as that says is left to
    /// the caller: a quoted one need not be.
    fn read(context: &TcContext, offset: usize) -> Result<Network<'_, Self>, Unreadable>;

    /// Whether the network header has a checksum of its own, so that the sum over the header
    /// stays the same whatever is written into it.
    const HAS_HEADER_CHECKSUM: bool;

    /// Whether one host has the address: not a group, not the unspecified one.
    fn is_unicast(address: &Self::Address) -> bool;

    /// The protocol number of the family's ICMP.
    const ICMP: u8;
    /// Whether an ICMP message of this type is an error, so that it quotes a packet.
    fn is_error(kind: u8) -> bool;
    /// Whether the checksum of ICMP covers the addresses.
    const ICMP_COVERS_ADDRESSES: bool;

    /// Type and code of the error "nobody listens at the port".
    const PORT_UNREACHABLE: (u8, u8);
    /// Of "the hop limit is used up".
    const EXPIRED: (u8, u8);
    /// Of "the packet is longer than the link takes".
    const TOO_LONG: (u8, u8);

    /// How long [`Self::Header`] is.
    const HEADER_LENGTH: usize = size_of::<Self::Header>();
    /// How long a header is at most with all that is walked.
    const LONGEST_HEADER: usize;

    /// Writes the network header of an ICMP message of `length` bytes at `offset`, from the
    /// destination of a packet with this tuple to its source. Gives the sum over what ICMP's
    /// checksum covers of it.
    fn write_before_icmp(
        context: &TcContext,
        offset: usize,
        length: usize,
        tuple: &Tuple<Self>,
    ) -> Result<Sum, Unreadable>;

    /// How many more hops the packet with its network header at `offset` may make.
    fn hop_limit(context: &TcContext, offset: usize) -> Result<u8, Unreadable>;

    /// Takes one hop off that, which is not 0.
    fn decrement_hop_limit(context: &TcContext, offset: usize) -> Result<(), Unreadable>;

    /// Writes into `lookup` what the way of that packet depends on, once it has the tuple
    /// `translated`.
    fn route_key(
        context: &TcContext,
        offset: usize,
        translated: &Tuple<Self>,
        lookup: &mut bpf_fib_lookup,
    ) -> Result<(), Unreadable>;
}

/// A network header without options or extension headers.
pub trait Header<F: Family> {
    /// What follows it, if that is a whole datagram and not more headers.
    fn protocol_of_whole(&self) -> Option<u8>;

    /// How long the packet is from the header's begin on; 0 if it is longer than can be said.
    fn packet_length(&self) -> usize;

    /// The address that the packet comes from.
    fn source(&mut self) -> &mut F::Address;

    /// The address that it goes to.
    fn destination(&mut self) -> &mut F::Address;

    /// Has the header's own checksum follow a change of the addresses.
    fn follow(&mut self, change: Folded);

    /// Writes the addresses of `new`, which differ by `change` from what there is.
    #[inline(always)]
    fn write(&mut self, new: &Tuple<F>, change: Folded) {
        *self.source() = new.source;
        *self.destination() = new.destination;
        self.follow(change);
    }
}

/// What the network header says.
pub struct Network<'a, F: Family> {
    /// In the header.
    pub source: &'a F::Address,
    pub destination: &'a F::Address,
    /// The protocol of what follows the header.
    pub protocol: u8,
    /// Offset of that.
    pub transport: usize,
    /// Offset of the packet's end: what the frame has behind it is padding.
    pub end: usize,
    /// How much of a datagram it is.
    pub part: Part,
    /// Which datagram, if it is a part of one.
    pub fragment: Fragment,
}

/// How much of a datagram a packet is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// Its begin, with the ports.
    First,
    /// Another part of it, without ports.
    Later,
}

/// Which datagram a fragment is of; zeros if it is none.
#[derive(Clone, Copy)]
pub struct Fragment {
    /// As it stands in the packet.
    pub identification: u32,
    /// What else tells it from others, see [`shunt_common::FragmentKey::protocol`].
    pub protocol: u32,
}

impl Part {
    /// What a packet is that is, or is not, the begin of a datagram, or its end.
    #[inline(always)]
    pub const fn of(is_first: bool, is_last: bool) -> Self {
        match (is_first, is_last) {
            (true, true) => Self::Whole,
            (true, false) => Self::First,
            (false, _) => Self::Later,
        }
    }
}
