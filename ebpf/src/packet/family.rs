//! Differences of the address families' headers. Everything else is one generic source.

use crate::{
    ctx::access::{Access, AccessError},
    packet::{error::ParseError, extensions::WalkExtensions, log::Logged, network::Network},
};

/// An address family as it stands in a packet.
pub(crate) trait Family: shunt_common::Family + Logged {
    /// The network header without options or extension headers.
    type Header: Header<Self>;

    /// Length of [`Self::Header`].
    const HEADER_LENGTH: usize = size_of::<Self::Header>();
    /// Maximum length of a header with all that is walked.
    const LONGEST_HEADER: usize;
    /// Length that each link takes, so that no sender is to send less; 0: there is no such length.
    const LEAST_MTU: u16;
    /// True if the network header has a checksum of its own, so that the sum over the header
    /// stays the same whatever is written into it.
    const HAS_HEADER_CHECKSUM: bool;

    /// Result of [`Access::ethertype`] for packets of this family.
    const ETHERTYPE: u32;

    /// The protocol number of a packet of the same family inside one (RFC 2003, RFC 2473).
    const ENVELOPE: u8;

    /// The protocol number of the family's ICMP.
    const ICMP: u8;
    /// True if the checksum of ICMP covers the addresses.
    const ICMP_COVERS_ADDRESSES: bool;

    /// Type and code of the error "port unreachable": the port has no listener.
    const PORT_UNREACHABLE: (u8, u8);
    /// Of "the hop limit is used up".
    const EXPIRED: (u8, u8);
    /// Of "the packet is longer than the link takes".
    const TOO_LONG: (u8, u8);

    /// The types of an echo request and of its answer.
    const ECHO: u8;
    const ECHO_REPLY: u8;

    /// Returns whether ICMP messages of this type are between the stations of one link, and no router's
    /// business.
    fn is_of_link(kind: u8) -> bool;

    /// Returns whether an ICMP message of this type is an error, so that it holds an inner packet.
    fn is_error(kind: u8) -> bool;

    /// Returns whether an ICMP message of this type reports something, or is of no type that asks for anything, so
    /// that no error is sent about it (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)).
    fn is_report(kind: u8) -> bool;

    /// Returns whether the address defines one host that can be answered: no group, not the unspecified
    /// one, not the loopback's (RFC 1122 section 3.2.2, RFC 4443 section 2.4(e)).
    fn is_unicast(address: &Self::Address) -> bool;

    /// Returns whether the kernel, as a router, takes on packets from the address, wherever they come in.
    fn is_forwarded_from(address: &Self::Address) -> bool;

    /// Returns whether the network header from `begin` to `end` is as its sender wrote it, as far as its
    /// own checksum shows.
    fn is_intact(context: &impl WalkExtensions, begin: usize, end: usize) -> bool;

    /// Returns what the options of the network header from `begin` to `end` require of a router.
    fn options(context: &impl WalkExtensions, begin: usize, end: usize) -> Options;

    /// Reads the network header at `offset`. The caller checks that the packet is as long as the
    /// header claims: an inner one need not be.
    fn read<C: WalkExtensions>(context: &C, offset: usize)
    -> Result<Network<'_, Self>, ParseError>;
}

/// A network header without options or extension headers.
pub(crate) trait Header<F: Family> {
    /// Returns the protocol of what follows it, if that is a whole datagram and not more headers.
    fn protocol_of_whole(&self) -> Option<u8>;

    /// Returns the length of the packet from the header's begin on; 0 if it does not fit the field.
    fn packet_length(&self) -> usize;

    /// The address that the packet comes from.
    fn source(&self) -> F::Address;

    /// The address that it goes to.
    fn destination(&self) -> F::Address;

    /// Returns the number of hops that the packet may still make.
    fn hop_limit(&self) -> u8;

    /// Returns the packet's mark of congestion: the two bits of RFC 3168 section 5.
    fn congestion(&self) -> u32;

    /// Returns whether a router may cut the packet into fragments.
    fn may_be_fragmented(&self) -> bool;

    /// Returns whether a header without options is as its sender wrote it, as far as its own checksum shows.
    fn is_intact(&self) -> bool;
}

/// Requirements of a packet's IP options on a router.
#[repr(u8)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Options {
    /// Nothing.
    Nothing,
    /// To write into them, or something that the stack knows.
    Something,
    /// To go a way that the sender chose.
    SourceRoute,
}

/// Returns the number of hops that the packet with its network header at `offset` may still make.
#[inline(always)]
pub(crate) fn hop_limit<F: Family>(
    context: &impl Access,
    offset: usize,
) -> Result<u8, AccessError> {
    Ok(context.at::<F::Header>(offset)?.hop_limit())
}
