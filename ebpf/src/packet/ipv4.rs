//! IPv4: its header and ICMP's types (RFC 791, RFC 792).

use shunt_common::{Sum, V4};

use crate::{
    ctx::access::Access,
    packet::{
        error::ParseError,
        extensions::WalkExtensions,
        family::{Family, Header, Options},
        network::{Fragment, Network, Part, end_beyond_header},
        offset::Offset,
    },
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
const SOURCE_QUENCH: u8 = 4;
const REDIRECT: u8 = 5;
/// `NR_ICMP_TYPES` of linux/icmp.h.
const LAST_TYPE: u8 = 18;
const ECHO_REPLY: u8 = 0;
const ECHO: u8 = 8;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;

/// Maximum length of a header: its length is 15 words.
const LONGEST: usize = 60;

/// Options of RFC 791 section 3.1: the end of all, one without a meaning, loose and strict source
/// routing.
const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;
const LOOSE_SOURCE_ROUTE: u8 = 131;
const STRICT_SOURCE_ROUTE: u8 = 137;

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

    #[inline(always)]
    fn congestion(&self) -> u32 {
        u32::from(self.service & 3)
    }

    #[inline(always)]
    fn may_be_fragmented(&self) -> bool {
        self.fragment & DONT_FRAGMENT.to_be() == 0
    }

    #[inline(always)]
    fn is_intact(&self) -> bool {
        is_of_ones(self.sum())
    }
}

impl Ipv4Header {
    /// The sum over the header without options.
    #[inline(always)]
    fn sum(&self) -> Sum {
        let header = (&raw const *self).cast::<[u32; 5]>();
        // SAFETY: the header is five words; on their alignment see `Access::at`.
        let words = unsafe { &*header };
        words
            .iter()
            .fold(Sum::default(), |sum, word| sum.with(*word))
    }
}

/// Returns whether the sum over a header with its checksum is what it has to be (RFC 1071).
#[inline(always)]
const fn is_of_ones(sum: Sum) -> bool {
    sum.apply(!0) == 0
}

impl Family for V4 {
    type Header = Ipv4Header;

    const LONGEST_HEADER: usize = LONGEST;
    const LEAST_MTU: u16 = 0;
    const HAS_HEADER_CHECKSUM: bool = true;

    /// `ETH_P_IP` of `linux/if_ether.h`.
    const ETHERTYPE: u32 = 0x0800_u16.to_be() as u32;

    const ENVELOPE: u8 = 4;

    const ICMP: u8 = 1;
    const ICMP_COVERS_ADDRESSES: bool = false;

    const PORT_UNREACHABLE: (u8, u8) = (DESTINATION_UNREACHABLE, 3);
    const EXPIRED: (u8, u8) = (TIME_EXCEEDED, 0);
    /// "Fragmentation needed and DF set" (RFC 1191 section 4).
    const TOO_LONG: (u8, u8) = (DESTINATION_UNREACHABLE, 4);

    const ECHO: u8 = ECHO;
    const ECHO_REPLY: u8 = ECHO_REPLY;

    #[inline(always)]
    fn is_of_link(_: u8) -> bool {
        false
    }

    #[inline(always)]
    fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            DESTINATION_UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    }

    /// As `__icmp_send` in net/ipv4/icmp.c.
    #[inline(always)]
    fn is_report(kind: u8) -> bool {
        Self::is_error(kind) || matches!(kind, SOURCE_QUENCH | REDIRECT) || kind > LAST_TYPE
    }

    #[inline(always)]
    fn is_unicast(address: &u32) -> bool {
        // Classes D and E, the limited broadcast among them, are 224.0.0.0 and above.
        let first = address.to_ne_bytes()[0];
        first != 0 && first != 127 && first < 224
    }

    /// `ip_route_input_slow` in net/ipv4/route.c.
    #[inline(always)]
    fn is_forwarded_from(address: &u32) -> bool {
        let first = address.to_ne_bytes()[0];
        first != 0 && first != 127 && first & 0xf0 != 224 && *address != u32::MAX
    }

    #[inline(always)]
    fn is_intact(context: &impl WalkExtensions, begin: usize, end: usize) -> bool {
        if end - begin > size_of::<Ipv4Header>() {
            return context.is_header_intact(begin as u32, end as u32);
        }
        context.at::<Ipv4Header>(begin).is_ok_and(Header::is_intact)
    }

    #[inline(always)]
    fn options(context: &impl WalkExtensions, begin: usize, end: usize) -> Options {
        if end - begin <= size_of::<Ipv4Header>() {
            return Options::Nothing;
        }
        match context.walk_options(begin as u32, end as u32) {
            NOTHING => Options::Nothing,
            SOURCE_ROUTE => Options::SourceRoute,
            _ => Options::Something,
        }
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

/// Returns whether the header from `begin` to `end`, with its options, is as its sender wrote it:
/// [`WalkExtensions::is_header_intact`].
#[inline(always)]
pub(crate) fn is_long_header_intact(context: &impl Access, begin: u32, end: u32) -> bool {
    let begin = Offset::new(begin as usize).get();
    let length = Offset::new(end as usize).get().wrapping_sub(begin);
    let Ok(header) = context.at::<Ipv4Header>(begin) else {
        return false;
    };
    let mut sum = header.sum();
    for place in (size_of::<Ipv4Header>()..LONGEST).step_by(4) {
        if place >= length {
            break;
        }
        let Ok(word) = context.at::<u32>(begin + place) else {
            return false;
        };
        sum = sum.with(*word);
    }
    is_of_ones(sum)
}

const NOTHING: u32 = Options::Nothing as u32;
const SOMETHING: u32 = Options::Something as u32;
const SOURCE_ROUTE: u32 = Options::SourceRoute as u32;

/// Looks at the options of the header from `begin` to `end`: [`WalkExtensions::walk_options`]. Returns
/// [`Options`] as a number.
#[inline(always)]
pub(crate) fn walk_options(context: &impl Access, begin: u32, end: u32) -> u32 {
    /// Of the end of a header, and of an option that begins before it.
    const BOUND: u32 = 0x7ff;

    let mut options = NOTHING;
    let mut place = begin + size_of::<Ipv4Header>() as u32;
    for _ in size_of::<Ipv4Header>()..LONGEST {
        // To the verifier any place is possible in each round, so that it looks at a round once for all
        // ways to come there.
        place &= BOUND;
        if place >= end {
            break;
        }
        let Ok([kind, option_length]) = context.at::<[u8; 2]>(place as usize) else {
            return SOMETHING;
        };
        place += match *kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => 1,
            LOOSE_SOURCE_ROUTE | STRICT_SOURCE_ROUTE => return SOURCE_ROUTE,
            _ => {
                options = SOMETHING;
                u32::from(*option_length).max(1)
            }
        };
    }
    options
}
