//! IPv4: its header and ICMP (RFC 791, RFC 792).

use aya_ebpf::{bindings::bpf_fib_lookup, programs::TcContext};
use shunt_common::{Folded, Sum, Tuple, V4};

use crate::{
    family::{Family, Fragment, Header, Network, Part},
    frame::{Unreadable, at, at_mut, longer_than_said},
};

/// `ETH_P_IP` of `linux/if_ether.h`, as `__sk_buff::protocol` holds it.
const ETHERTYPE_IPV4: u32 = 0x0800_u16.to_be() as u32;

/// The IPv4 header without options, RFC 791 section 3.1; multi-byte fields in network order.
#[repr(C)]
pub struct Ipv4Header {
    version_and_length: u8,
    service: u8,
    total_length: u16,
    identification: u16,
    fragment: u16,
    time_to_live: u8,
    protocol: u8,
    checksum: u16,
    source: u32,
    destination: u32,
}

const _: () = assert!(size_of::<Ipv4Header>() == 20, "RFC 791: five words");

/// "Don't fragment" in the fragment field.
const DONT_FRAGMENT: u16 = 0x4000;
/// "More fragments" there, and where this one is in its datagram.
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;
const DESTINATION_UNREACHABLE: u8 = 3;
const TIME_EXCEEDED: u8 = 11;
const PARAMETER_PROBLEM: u8 = 12;
/// `AF_INET` of `linux/socket.h`.
const ADDRESS_FAMILY: u8 = 2;

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
    fn source(&mut self) -> &mut u32 {
        &mut self.source
    }

    #[inline(always)]
    fn destination(&mut self) -> &mut u32 {
        &mut self.destination
    }

    #[inline(always)]
    fn follow(&mut self, change: Folded) {
        self.checksum = change.apply(self.checksum);
    }
}

impl Family for V4 {
    type Header = Ipv4Header;

    #[inline(always)]
    fn carried_by(context: &TcContext) -> bool {
        context.skb.protocol() == ETHERTYPE_IPV4
    }

    #[inline(always)]
    fn read(context: &TcContext, offset: usize) -> Result<Network<'_, Self>, Unreadable> {
        let header = at::<Ipv4Header>(context, offset)?;
        let length = usize::from(header.version_and_length & 0x0f) * 4;
        if header.version_and_length >> 4 != 4 || length < size_of::<Ipv4Header>() {
            return Err(Unreadable::Foreign);
        }
        let is_first = header.fragment & OFFSET.to_be() == 0;
        let is_last = header.fragment & MORE_FRAGMENTS.to_be() == 0;
        let end = match usize::from(u16::from_be(header.total_length)) {
            0 => longer_than_said(context)?,
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

    const HAS_HEADER_CHECKSUM: bool = true;

    #[inline(always)]
    fn is_unicast(address: &u32) -> bool {
        // Classes D and E, the limited broadcast among them, are 224.0.0.0 and above.
        let first = address.to_ne_bytes()[0];
        first != 0 && first < 224
    }

    const ICMP: u8 = 1;

    #[inline(always)]
    fn is_error(kind: u8) -> bool {
        matches!(
            kind,
            DESTINATION_UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM
        )
    }

    const ICMP_COVERS_ADDRESSES: bool = false;

    const PORT_UNREACHABLE: (u8, u8) = (DESTINATION_UNREACHABLE, 3);
    const EXPIRED: (u8, u8) = (TIME_EXCEEDED, 0);
    /// "Fragmentation needed and DF set" (RFC 1191 section 4).
    const TOO_LONG: (u8, u8) = (DESTINATION_UNREACHABLE, 4);

    const LONGEST_HEADER: usize = 60;

    #[inline(always)]
    fn write_before_icmp(
        context: &TcContext,
        offset: usize,
        length: usize,
        tuple: &Tuple<Self>,
    ) -> Result<Sum, Unreadable> {
        let total = Self::HEADER_LENGTH + length;
        let header = at_mut::<Ipv4Header>(context, offset)?;
        *header = Ipv4Header {
            version_and_length: 0x45,
            service: 0,
            total_length: (total as u16).to_be(),
            identification: 0,
            fragment: DONT_FRAGMENT.to_be(),
            time_to_live: 64,
            protocol: Self::ICMP,
            checksum: 0,
            source: tuple.destination,
            destination: tuple.source,
        };
        let mut sum = Sum::default();
        for word in at::<[u32; 5]>(context, offset)? {
            sum = sum.with(*word);
        }
        at_mut::<Ipv4Header>(context, offset)?.checksum = sum.apply(!0);
        Ok(Sum::default())
    }

    #[inline(always)]
    fn hop_limit(context: &TcContext, offset: usize) -> Result<u8, Unreadable> {
        Ok(at::<Ipv4Header>(context, offset)?.time_to_live)
    }

    #[inline(always)]
    fn decrement_hop_limit(context: &TcContext, offset: usize) -> Result<(), Unreadable> {
        let header = at_mut::<Ipv4Header>(context, offset)?;
        header.time_to_live -= 1;
        // The field is the first of its 16-bit word.
        let one = u32::from(u16::from_ne_bytes([1, 0]));
        header.checksum = Sum::default().replace(one, 0).apply(header.checksum);
        Ok(())
    }

    #[inline(always)]
    fn route_key(
        context: &TcContext,
        offset: usize,
        translated: &Tuple<Self>,
        lookup: &mut bpf_fib_lookup,
    ) -> Result<(), Unreadable> {
        let header = at::<Ipv4Header>(context, offset)?;
        lookup.family = ADDRESS_FAMILY;
        lookup.l4_protocol = header.protocol;
        lookup.sport = translated.source_port;
        lookup.dport = translated.destination_port;
        lookup.__bindgen_anon_2.tos = header.service;
        lookup.__bindgen_anon_3.ipv4_src = translated.source;
        lookup.__bindgen_anon_4.ipv4_dst = translated.destination;
        Ok(())
    }
}
