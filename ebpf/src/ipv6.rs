//! IPv6: its header and ICMPv6 (RFC 8200, RFC 4443).

use aya_ebpf::{bindings::bpf_fib_lookup, programs::TcContext};
use shunt_common::{Address as _, Folded, Sum, Tuple, V6};

use crate::{
    extensions::{self, LONGEST_EXTENSIONS},
    family::{Family, Fragment, Header, Network, Part},
    frame::{Unreadable, at, at_mut, longer_than_said},
    rewrite::account,
};

/// `ETH_P_IPV6` of `linux/if_ether.h`, as `__sk_buff::protocol` holds it.
const ETHERTYPE_IPV6: u32 = 0x86dd_u16.to_be() as u32;

/// The IPv6 header, RFC 8200 section 3; multi-byte fields in network order.
#[repr(C)]
pub struct Ipv6Header {
    version_class_flow: u32,
    payload_length: u16,
    next_header: u8,
    hop_limit: u8,
    source: [u32; 4],
    destination: [u32; 4],
}

const _: () = assert!(size_of::<Ipv6Header>() == 40, "RFC 8200: ten words");

const DESTINATION_UNREACHABLE: u8 = 1;
const PACKET_TOO_BIG: u8 = 2;
const TIME_EXCEEDED: u8 = 3;
const PARAMETER_PROBLEM: u8 = 4;
/// `AF_INET6` of `linux/socket.h`.
const ADDRESS_FAMILY: u8 = 10;

impl Header<V6> for Ipv6Header {
    #[inline(always)]
    fn protocol_of_whole(&self) -> Option<u8> {
        let is_plain = self.version_class_flow.to_ne_bytes()[0] >> 4 == 6
            && !extensions::is_one(self.next_header);
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
    fn source(&mut self) -> &mut [u32; 4] {
        &mut self.source
    }

    #[inline(always)]
    fn destination(&mut self) -> &mut [u32; 4] {
        &mut self.destination
    }

    #[inline(always)]
    fn follow(&mut self, _: Folded) {}
}

impl Family for V6 {
    type Header = Ipv6Header;

    #[inline(always)]
    fn carried_by(context: &TcContext) -> bool {
        context.skb.protocol() == ETHERTYPE_IPV6
    }

    #[inline(always)]
    fn read(context: &TcContext, offset: usize) -> Result<Network<'_, Self>, Unreadable> {
        let header = at::<Ipv6Header>(context, offset)?;
        if header.version_class_flow.to_ne_bytes()[0] >> 4 != 6 {
            return Err(Unreadable::Foreign);
        }
        let begin = offset + size_of::<Ipv6Header>();
        let end = match usize::from(u16::from_be(header.payload_length)) {
            0 => longer_than_said(context)?,
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

    const HAS_HEADER_CHECKSUM: bool = false;

    #[inline(always)]
    fn is_unicast(address: &[u32; 4]) -> bool {
        // Groups are ff00::/8 (RFC 4291 section 2.7).
        address[0].to_ne_bytes()[0] != 0xff && !address.is_unspecified()
    }

    const ICMP: u8 = 58;

    #[inline(always)]
    fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            DESTINATION_UNREACHABLE | PACKET_TOO_BIG | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    }

    const ICMP_COVERS_ADDRESSES: bool = true;

    const PORT_UNREACHABLE: (u8, u8) = (DESTINATION_UNREACHABLE, 4);
    const EXPIRED: (u8, u8) = (TIME_EXCEEDED, 0);
    const TOO_LONG: (u8, u8) = (PACKET_TOO_BIG, 0);

    const LONGEST_HEADER: usize = Self::HEADER_LENGTH + LONGEST_EXTENSIONS;

    #[inline(always)]
    fn write_before_icmp(
        context: &TcContext,
        offset: usize,
        length: usize,
        tuple: &Tuple<Self>,
    ) -> Result<Sum, Unreadable> {
        let header = at_mut::<Ipv6Header>(context, offset)?;
        *header = Ipv6Header {
            version_class_flow: 0x6000_0000_u32.to_be(),
            payload_length: (length as u16).to_be(),
            next_header: Self::ICMP,
            hop_limit: 64,
            source: tuple.destination,
            destination: tuple.source,
        };
        // The pseudo header, RFC 8200 section 8.1.
        let mut sum = Sum::default()
            .with((length as u32).to_be())
            .with(u32::from(Self::ICMP).to_be());
        for address in [&tuple.source, &tuple.destination] {
            for word in address {
                sum = sum.with(*word);
            }
        }
        Ok(sum)
    }

    #[inline(always)]
    fn hop_limit(context: &TcContext, offset: usize) -> Result<u8, Unreadable> {
        Ok(at::<Ipv6Header>(context, offset)?.hop_limit)
    }

    #[inline(always)]
    fn decrement_hop_limit(context: &TcContext, offset: usize) -> Result<(), Unreadable> {
        let header = at_mut::<Ipv6Header>(context, offset)?;
        header.hop_limit -= 1;
        // The field is the second of its 16-bit word.
        let one = u32::from(u16::from_ne_bytes([0, 1]));
        account(context, Sum::default().replace(one, 0).fold());
        Ok(())
    }

    #[inline(always)]
    fn route_key(
        context: &TcContext,
        offset: usize,
        translated: &Tuple<Self>,
        lookup: &mut bpf_fib_lookup,
    ) -> Result<(), Unreadable> {
        let header = at::<Ipv6Header>(context, offset)?;
        lookup.family = ADDRESS_FAMILY;
        lookup.l4_protocol = header.next_header;
        lookup.sport = translated.source_port;
        lookup.dport = translated.destination_port;
        // The traffic class and the flow label (`IPV6_FLOWINFO_MASK` of net/ipv6.h).
        lookup.__bindgen_anon_2.flowinfo = header.version_class_flow & 0x0fff_ffff_u32.to_be();
        lookup.__bindgen_anon_3.ipv6_src = translated.source;
        lookup.__bindgen_anon_4.ipv6_dst = translated.destination;
        Ok(())
    }
}
