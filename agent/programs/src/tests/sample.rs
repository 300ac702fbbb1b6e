//! Addresses and packets of either family.

use std::net::IpAddr;

use shunt_common::{Tuple, V4, V6};

use crate::{
    forward::fib::Routed,
    nat::open::Open,
    packet::{ipv4::Ipv4Header, ipv6::Ipv6Header, offset::Offset, parsed::Packet},
    way::v6,
};

/// Offset of the network header.
pub(super) const NETWORK: usize = 14;

/// The traffic class of all packets, and their flow label.
pub(super) const CLASS: u8 = 0x28;
pub(super) const LABEL: u32 = 0xa_bcde;

/// A family with addresses by number.
pub(super) trait Sample: Open + Routed {
    /// The name of a constant or table of the family.
    fn name(of: &str) -> String;

    /// The address of the host with this number.
    fn host(number: u32) -> Self::Address;

    /// The same as text.
    fn ip(number: u32) -> IpAddr;

    /// The bytes of a network header.
    fn header(tuple: &Tuple<Self>, protocol: u8) -> Vec<u8>;
}

impl Sample for V4 {
    fn name(of: &str) -> String {
        format!("{of}_V4")
    }

    fn host(number: u32) -> u32 {
        (0x0a00_0000 | number).to_be()
    }

    fn ip(number: u32) -> IpAddr {
        IpAddr::from(Self::host(number).to_ne_bytes())
    }

    fn header(tuple: &Tuple<Self>, protocol: u8) -> Vec<u8> {
        let header = Ipv4Header {
            version_and_length: 0x45,
            service: CLASS,
            total_length: 28_u16.to_be(),
            identification: 0,
            fragment: 0,
            time_to_live: 64,
            protocol,
            checksum: 0,
            source: tuple.source,
            destination: tuple.destination,
        };
        bytes(&header)
    }
}

impl Sample for V6 {
    fn name(of: &str) -> String {
        format!("{of}_V6")
    }

    fn host(number: u32) -> [u32; 4] {
        [0xfd00_0000_u32.to_be(), 0, 0, number.to_be()]
    }

    fn ip(number: u32) -> IpAddr {
        v6(Self::host(number)).into()
    }

    fn header(tuple: &Tuple<Self>, protocol: u8) -> Vec<u8> {
        let header = Ipv6Header {
            version_class_flow: (6 << 28 | u32::from(CLASS) << 20 | LABEL).to_be(),
            payload_length: 8_u16.to_be(),
            next_header: protocol,
            hop_limit: 64,
            source: tuple.source,
            destination: tuple.destination,
        };
        bytes(&header)
    }
}

/// The bytes of a header, which has no padding.
fn bytes<T>(header: &T) -> Vec<u8> {
    // SAFETY: so many bytes are there, all of them written.
    unsafe { core::slice::from_raw_parts((&raw const *header).cast(), size_of::<T>()) }.to_vec()
}

/// The tuple of a packet between two hosts, with ports in host order.
pub(super) fn tuple<F: Sample>(from: (u32, u16), to: (u32, u16)) -> Tuple<F> {
    Tuple {
        source: F::host(from.0),
        destination: F::host(to.0),
        source_port: from.1.to_be(),
        destination_port: to.1.to_be(),
    }
}

/// The frame of a packet with this tuple, and eight bytes behind its network header.
pub(super) fn frame<F: Sample>(tuple: &Tuple<F>, protocol: u8) -> Vec<u8> {
    let mut frame = vec![0; NETWORK];
    // The EtherType stands in the word's first half.
    frame[12..].copy_from_slice(&F::ETHERTYPE.to_ne_bytes()[..2]);
    frame.extend(F::header(tuple, protocol));
    frame.extend(tuple.source_port.to_ne_bytes());
    frame.extend(tuple.destination_port.to_ne_bytes());
    frame.extend([0; 4]);
    frame
}

/// The packet of that frame, as it is read.
pub(super) fn packet<F: Sample>(tuple: &Tuple<F>, protocol: u8) -> Packet<F> {
    let payload = NETWORK + F::HEADER_LENGTH + 8;
    Packet {
        tuple: *tuple,
        protocol,
        network: Offset::new(NETWORK),
        payload: Offset::new(payload),
        ..Packet::none()
    }
}
