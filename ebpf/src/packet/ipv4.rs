//! IPv4: its header and ICMP's types (RFC 791, RFC 792).

use shunt_common::V4;

use crate::packet::{
    error::ParseError,
    extensions::WalkExtensions,
    family::{Family, Header},
    network::{Fragment, Network, Part, end_beyond_header},
};

/// The IPv4 header without options, RFC 791 section 3.1; multi-byte fields in network order.
#[repr(C)]
pub(crate) struct Ipv4Header {
    pub version_and_length: u8,
    pub service: u8,
    pub total_length: u16,
    pub identification: u16,
    pub fragment: u16,
    pub time_to_live: u8,
    pub protocol: u8,
    pub checksum: u16,
    pub source: u32,
    pub destination: u32,
}

const _: () = assert!(size_of::<Ipv4Header>() == 20, "RFC 791: five words");

/// "Don't fragment" in the fragment field.
pub(crate) const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments" there, and where this one is in its datagram.
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const DESTINATION_UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

impl Header<V4> for Ipv4Header {
    #[inline(always)]
    fn protocol_of_whole(&self) -> Option<u8> {
        let is_plain = self.version_and_length == 0x45
            && self.fragment & (MORE_FRAGMENTS | OFFSET).to_be() == 0;
        is_plain.then_some(self.protocol)
    }

    #[inline(always)]
    fn packet_length(&self) -> usize {
        u16::from_be(self.total_length).into()
    }

    #[inline(always)]
    fn source(&self) -> u32 {
        self.source
    }

    #[inline(always)]
    fn destination(&self) -> u32 {
        self.destination
    }

    #[inline(always)]
    fn hop_limit(&self) -> u8 {
        self.time_to_live
    }
}

impl Family for V4 {
    type Header = Ipv4Header;

    const LONGEST_HEADER: usize = 60;
    const HAS_HEADER_CHECKSUM: bool = true;

    /// `ETH_P_IP` of `linux/if_ether.h`.
    const ETHERTYPE: u32 = 0x0800_u16.to_be() as u32;

    const ICMP: u8 = 1;
    const ICMP_COVERS_ADDRESSES: bool = false;

    const PORT_UNREACHABLE: (u8, u8) = (DESTINATION_UNREACHABLE, 3);
    const EXPIRED: (u8, u8) = (TIME_EXCEEDED, 0);
    /// "Fragmentation needed and DF set" (RFC 1191 section 4).
    const TOO_LONG: (u8, u8) = (DESTINATION_UNREACHABLE, 4);

    #[inline(always)]
    fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            DESTINATION_UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    }

    #[inline(always)]
    fn is_unicast(address: &u32) -> bool {
        // Classes D and E, the limited broadcast among them, are 224.0.0.0 and above.
        let first = address.to_ne_bytes()[0];
        first != 0 && first < 224
    }

    #[inline(always)]
    fn read<C: WalkExtensions>(
        context: &C,
        offset: usize,
    ) -> Result<Network<'_, Self>, ParseError> {
        let header = context.at::<Ipv4Header>(offset)?;
        let length = usize::from(header.version_and_length & 0x0f) * 4;
        if header.version_and_length >> 4 != 4 || length < size_of::<Ipv4Header>() {
            return Err(ParseError::Foreign);
        }
        let is_first = header.fragment & OFFSET.to_be() == 0;
        let is_last = header.fragment & MORE_FRAGMENTS.to_be() == 0;
        let end = match usize::from(u16::from_be(header.total_length)) {
            0 => end_beyond_header(context)?,
            total => offset + total,
        };
        Ok(Network {
            source: &header.source,
            destination: &header.destination,
            protocol: header.protocol,
            transport: offset + length,
            end,
            part: Part::of(is_first, is_last),
            fragment: Fragment {
                identification: header.identification.into(),
                protocol: header.protocol.into(),
            },
        })
    }
}
