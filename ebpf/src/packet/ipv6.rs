//! IPv6: its header and ICMPv6's types (RFC 8200, RFC 4443).

use shunt_common::{Address as _, V6};

use crate::packet::{
    error::ParseError,
    extensions::{self, LONGEST_EXTENSIONS, WalkExtensions},
    family::{Family, Header, Options},
    network::{Fragment, Network, Part, end_beyond_header},
};

/// The IPv6 header, RFC 8200 section 3; multi-byte fields in network order.
#[repr(C)]
pub(crate) struct Ipv6Header {
    pub version_class_flow: u32,
    pub payload_length: u16,
    pub next_header: u8,
    pub hop_limit: u8,
    pub source: [u32; 4],
    pub destination: [u32; 4],
}

impl Ipv6Header {
    /// Bits of the first word for congestion (RFC 3168 section 5).
    pub(crate) const CONGESTION: u32 = 0x0030_0000_u32.to_be();
}

const _: () = assert!(size_of::<Ipv6Header>() == 40, "RFC 8200: ten words");

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;

/// `::1`, RFC 4291 section 2.5.3.
const LOOPBACK: [u32; 4] = [0, 0, 0, 1_u32.to_be()];
/// The first byte of groups, `ff00::/8`, section 2.7.
const GROUPS: u8 = 0xff;
/// `fe80::/10`, section 2.5.6.
const LINK_LOCAL: u32 = 0xfe80_0000_u32.to_be();
const LINK_LOCAL_MASK: u32 = 0xffc0_0000_u32.to_be();
/// The third word of `::ffff:0:0/96`, section 2.5.5.2.
const MAPPED: u32 = 0xffff_u32.to_be();

impl Ipv6Header {
    #[inline(always)]
    const fn version(&self) -> u8 {
        self.version_class_flow.to_ne_bytes()[0] >> 4
    }
}

impl Header<V6> for Ipv6Header {
    #[inline(always)]
    fn protocol_of_whole(&self) -> Option<u8> {
        let is_plain = self.version() == 6 && !extensions::is_one(self.next_header);
        is_plain.then_some(self.next_header)
    }

    #[inline(always)]
    fn packet_length(&self) -> usize {
        match u16::from_be(self.payload_length) {
            0 => 0,
            payload => size_of::<Self>() + usize::from(payload),
        }
    }

    #[inline(always)]
    fn source(&self) -> [u32; 4] {
        self.source
    }

    #[inline(always)]
    fn destination(&self) -> [u32; 4] {
        self.destination
    }

    #[inline(always)]
    fn hop_limit(&self) -> u8 {
        self.hop_limit
    }

    #[inline(always)]
    fn congestion(&self) -> u32 {
        u32::from_be(self.version_class_flow & Self::CONGESTION) >> 20
    }

    /// Only its sender does that (RFC 8200 section 5).
    #[inline(always)]
    fn may_be_fragmented(&self) -> bool {
        false
    }

    /// It has no checksum.
    #[inline(always)]
    fn is_intact(&self) -> bool {
        true
    }
}

impl Family for V6 {
    type Header = Ipv6Header;

    const LONGEST_HEADER: usize = Self::HEADER_LENGTH + LONGEST_EXTENSIONS;
    /// RFC 8200 section 5.
    const LEAST_MTU: u16 = 1280;
    const HAS_HEADER_CHECKSUM: bool = false;

    /// `ETH_P_IPV6` of `linux/if_ether.h`.
    const ETHERTYPE: u32 = 0x86dd_u16.to_be() as u32;

    const ENVELOPE: u8 = 41;

    const ICMP: u8 = 58;
    const ICMP_COVERS_ADDRESSES: bool = true;

    const PORT_UNREACHABLE: (u8, u8) = (DESTINATION_UNREACHABLE, 4);
    const EXPIRED: (u8, u8) = (TIME_EXCEEDED, 0);
    const TOO_LONG: (u8, u8) = (PACKET_TOO_BIG, 0);

    const ECHO: u8 = 128;
    const ECHO_REPLY: u8 = 129;

    /// Neighbour discovery (RFC 4861 section 4).
    #[inline(always)]
    fn is_of_link(kind: u8) -> bool {
        matches!(kind, 133..=137)
    }

    #[inline(always)]
    fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            DESTINATION_UNREACHABLE | PACKET_TOO_BIG | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    }

    /// The first bit distinguishes errors, those of unknown types too, from other messages (RFC 4443 section 2.1).
    #[inline(always)]
    fn is_report(kind: u8) -> bool {
        kind & 0x80 == 0
    }

    #[inline(always)]
    fn is_unicast(address: &[u32; 4]) -> bool {
        address[0].to_ne_bytes()[0] != GROUPS && !address.is_unspecified() && *address != LOOPBACK
    }

    /// `ip6_rcv_core` in net/ipv6/ip6_input.c and `ip6_forward` in net/ipv6/ip6_output.c: besides
    /// those, no link-local address and none that holds an IPv4 address.
    #[inline(always)]
    fn is_forwarded_from(address: &[u32; 4]) -> bool {
        let [first, second, third, _] = *address;
        if first != 0 {
            return first.to_ne_bytes()[0] != GROUPS && first & LINK_LOCAL_MASK != LINK_LOCAL;
        }
        Self::is_unicast(address) && (second, third) != (0, MAPPED)
    }

    #[inline(always)]
    fn is_intact(_: &impl WalkExtensions, _: usize, _: usize) -> bool {
        true
    }

    /// A routing header with stations left is left alone before, see [`extensions::walk`].
    #[inline(always)]
    fn options(_: &impl WalkExtensions, _: usize, _: usize) -> Options {
        Options::Nothing
    }

    #[inline(always)]
    fn read<C: WalkExtensions>(
        context: &C,
        offset: usize,
    ) -> Result<Network<'_, Self>, ParseError> {
        let header = context.at::<Ipv6Header>(offset)?;
        if header.version() != 6 {
            return Err(ParseError::Foreign);
        }
        let begin = offset + size_of::<Ipv6Header>();
        let end = match usize::from(u16::from_be(header.payload_length)) {
            0 => end_beyond_header(context)?,
            payload => begin + payload,
        };
        let mut network = Network {
            source: &header.source,
            destination: &header.destination,
            protocol: header.next_header,
            transport: begin,
            end,
            part: Part::Whole,
            fragment: Fragment {
                identification: 0,
                protocol: 0,
            },
        };
        if extensions::is_one(network.protocol) {
            extensions::skip(context, &mut network)?;
        }
        Ok(network)
    }
}
