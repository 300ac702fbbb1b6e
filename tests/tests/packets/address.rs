//! Differences of the address families on the wire, by a library that is not ours.

use std::fmt::Debug;

use etherparse::{
    EtherType, Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpFragOffset, IpNumber,
    Ipv4Header, Ipv6FragmentHeader, Ipv6Header, TcpHeader, UdpHeader,
    icmpv4::{self, DestUnreachableHeader},
    icmpv6::{self, DestUnreachableCode, ParameterProblemCode},
};

/// An address, of 4 or 16 bytes.
pub(crate) trait Address: Copy + PartialEq + Debug + AsRef<[u8]> + 'static {
    const ETHER_TYPE: EtherType;
    /// The protocol number of the family's ICMP.
    const ICMP: IpNumber;
    /// Least length of the network header.
    const HEADER: usize;
    /// Offset of its source.
    const SOURCE: usize;

    /// The packet of this header and payload.
    fn packet(header: &Header<'_, Self>, payload: &[u8]) -> Vec<u8>;

    /// The checksum of a segment.
    fn tcp_checksum(header: &TcpHeader, from: Self, to: Self, payload: &[u8]) -> u16;

    /// The checksum of a datagram.
    fn udp_checksum(header: &UdpHeader, from: Self, to: Self, payload: &[u8]) -> u16;

    /// The message that reports the problem and quotes this begin of a packet.
    fn icmp(problem: Problem, from: Self, to: Self, quoted: &[u8]) -> Vec<u8>;

    /// The address in these bytes.
    fn of(bytes: &[u8]) -> Self;
}

/// Content of a network header.
pub(crate) struct Header<'a, A> {
    pub protocol: IpNumber,
    pub source: A,
    pub destination: A,
    pub time_to_live: u8,
    /// IPv4 only.
    pub identification: u16,
    /// IPv4 options.
    pub options: &'a [u8],
    /// IPv6 extension headers.
    pub extensions: &'a [Extension],
    pub fragment: Option<Fragment>,
}

/// An IPv6 extension header: its type, and its bytes, of which the first, the type of what
/// follows, is filled in.
#[derive(Debug, Clone)]
pub(crate) struct Extension(pub u8, pub Vec<u8>);

/// A packet's part of a datagram.
pub(crate) struct Fragment {
    pub identification: u16,
    /// In units of 8 bytes.
    pub offset: u16,
    pub is_last: bool,
}

/// Reason why a packet went no further.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Problem {
    NoHost,
    NoPort,
    TooLong { mtu: u16 },
    Expired,
    Malformed,
}

/// One of each.
pub(crate) const PROBLEMS: [Problem; 5] = [
    Problem::NoHost,
    Problem::NoPort,
    Problem::TooLong { mtu: 1280 },
    Problem::Expired,
    Problem::Malformed,
];

impl Address for [u8; 4] {
    const ETHER_TYPE: EtherType = EtherType::IPV4;
    const ICMP: IpNumber = IpNumber::ICMP;
    const HEADER: usize = 20;
    const SOURCE: usize = 12;

    fn packet(header: &Header<'_, Self>, payload: &[u8]) -> Vec<u8> {
        let length = u16::try_from(header.options.len() + payload.len()).unwrap();
        let mut ip = Ipv4Header::new(
            length,
            header.time_to_live,
            header.protocol,
            header.source,
            header.destination,
        )
        .unwrap();
        ip.dont_fragment = header.fragment.is_none();
        ip.identification = header.identification;
        ip.options = header.options.try_into().unwrap();
        if let Some(fragment) = &header.fragment {
            ip.identification = fragment.identification;
            ip.fragment_offset = fragment.offset.try_into().unwrap();
            ip.more_fragments = !fragment.is_last;
        }
        let mut packet = Vec::new();
        ip.write(&mut packet).unwrap();
        packet.extend(payload);
        packet
    }

    fn tcp_checksum(header: &TcpHeader, from: Self, to: Self, payload: &[u8]) -> u16 {
        header.calc_checksum_ipv4_raw(from, to, payload).unwrap()
    }

    fn udp_checksum(header: &UdpHeader, from: Self, to: Self, payload: &[u8]) -> u16 {
        header.calc_checksum_ipv4_raw(from, to, payload).unwrap()
    }

    fn icmp(problem: Problem, _: Self, _: Self, quoted: &[u8]) -> Vec<u8> {
        let kind = match problem {
            Problem::NoHost => Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Host),
            Problem::NoPort => Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port),
            Problem::TooLong { mtu: next_hop_mtu } => {
                Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::FragmentationNeeded {
                    next_hop_mtu,
                })
            }
            Problem::Expired => {
                Icmpv4Type::TimeExceeded(icmpv4::TimeExceededCode::TtlExceededInTransit)
            }
            Problem::Malformed => Icmpv4Type::ParameterProblem(
                icmpv4::ParameterProblemHeader::PointerIndicatesError(20),
            ),
        };
        let mut message = Icmpv4Header::with_checksum(kind, quoted)
            .to_bytes()
            .to_vec();
        message.extend(quoted);
        message
    }

    fn of(bytes: &[u8]) -> Self {
        bytes.try_into().unwrap()
    }
}

impl Address for [u8; 16] {
    const ETHER_TYPE: EtherType = EtherType::IPV6;
    const ICMP: IpNumber = IpNumber::IPV6_ICMP;
    const HEADER: usize = 40;
    const SOURCE: usize = 8;

    fn packet(header: &Header<'_, Self>, payload: &[u8]) -> Vec<u8> {
        let mut extensions = header.extensions.to_vec();
        if let Some(fragment) = &header.fragment {
            let offset = IpFragOffset::try_new(fragment.offset).unwrap();
            let identification = 0xabcd_0000 | u32::from(fragment.identification);
            let header =
                Ipv6FragmentHeader::new(header.protocol, offset, !fragment.is_last, identification);
            extensions.push(Extension(
                IpNumber::IPV6_FRAGMENTATION_HEADER.0,
                header.to_bytes().to_vec(),
            ));
        }
        let mut next = header.protocol;
        for Extension(kind, bytes) in extensions.iter_mut().rev() {
            bytes[0] = next.0;
            next = IpNumber(*kind);
        }
        let extensions: Vec<u8> = extensions.into_iter().flat_map(|header| header.1).collect();
        let ip = Ipv6Header {
            traffic_class: 0,
            flow_label: etherparse::Ipv6FlowLabel::ZERO,
            payload_length: u16::try_from(extensions.len() + payload.len()).unwrap(),
            next_header: next,
            hop_limit: header.time_to_live,
            source: header.source,
            destination: header.destination,
        };
        [ip.to_bytes().as_slice(), &extensions, payload].concat()
    }

    fn tcp_checksum(header: &TcpHeader, from: Self, to: Self, payload: &[u8]) -> u16 {
        header.calc_checksum_ipv6_raw(from, to, payload).unwrap()
    }

    fn udp_checksum(header: &UdpHeader, from: Self, to: Self, payload: &[u8]) -> u16 {
        header.calc_checksum_ipv6_raw(from, to, payload).unwrap()
    }

    fn icmp(problem: Problem, from: Self, to: Self, quoted: &[u8]) -> Vec<u8> {
        let kind = match problem {
            Problem::NoHost => Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Address),
            Problem::NoPort => Icmpv6Type::DestinationUnreachable(DestUnreachableCode::Port),
            Problem::TooLong { mtu } => Icmpv6Type::PacketTooBig { mtu: mtu.into() },
            Problem::Expired => {
                Icmpv6Type::TimeExceeded(icmpv6::TimeExceededCode::HopLimitExceeded)
            }
            Problem::Malformed => Icmpv6Type::ParameterProblem(icmpv6::ParameterProblemHeader {
                code: ParameterProblemCode::UnrecognizedNextHeader,
                pointer: 40,
            }),
        };
        let header = Icmpv6Header::with_checksum(kind, from, to, quoted).unwrap();
        let mut message = header.to_bytes().to_vec();
        message.extend(quoted);
        message
    }

    fn of(bytes: &[u8]) -> Self {
        bytes.try_into().unwrap()
    }
}
