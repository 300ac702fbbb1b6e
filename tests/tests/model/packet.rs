//! Packets as values, and the frames that they are. Headers and checksums are a library's.

use std::net::IpAddr;

use etherparse::{
    Icmpv4Header, Icmpv4Type, Icmpv6Header, Icmpv6Type, IpDscp, IpEcn, IpFragOffset, IpNumber,
    Ipv4Header, Ipv6FlowLabel, Ipv6Header, TcpHeader, UdpHeader,
};

use super::{
    cluster::Protocol,
    envelope::Enclosed,
    extensions::{FRAGMENT, ROUTING},
    flow::{Ends, Side},
};

const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const TO: [u8; 6] = [0; 6];

/// Offsets of the ends of the first piece of a fragmented datagram, and of the second: a TCP header is whole.
const CUTS: [usize; 2] = [24, 40];

/// The flags of a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Flags {
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
}

/// An IPv6 extension header.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Extension {
    pub kind: u8,
    /// In its own units, without what every one has.
    pub length: u8,
    /// Of a routing header.
    pub segments_left: u8,
}

/// An ICMP error instead of the packet: about one that went the other way.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    /// Of four errors of each family, and something that is none.
    pub kind: u8,
    /// True if it comes from a router on the way, and not from the end.
    pub from_router: bool,
    /// Limit of the quoted part of the packet, in bytes.
    pub quoted: usize,
}

/// Everything of a packet but its ends.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    /// Of a packet that goes nowhere in particular.
    pub protocol: Protocol,
    pub flags: Flags,
    /// TCP's sequence number.
    pub sequence: u32,
    /// The number that a segment acknowledges.
    pub acknowledged: u32,
    /// The type of SCTP's first chunk.
    pub chunk: u8,
    /// UDP without it has 0 in its place; so has SCTP while it is to be filled in.
    pub checksum: bool,
    /// Words of IPv4 options, up to 10.
    pub ip_options: usize,
    /// IPv6's extension headers.
    pub extensions: Vec<Extension>,
    /// Words of TCP options, up to 10.
    pub tcp_options: usize,
    /// The segment size that it announces instead, behind so many options without meaning.
    pub announced: Option<(u8, u16)>,
    /// Its service class, with its congestion mark.
    pub class: u8,
    pub hop_limit: u8,
    pub identification: u16,
    pub payload: Vec<u8>,
    /// Bytes behind the IP packet, as short Ethernet frames have them.
    pub padding: usize,
    pub report: Option<Report>,
    pub envelope: Option<Enclosed>,
}

/// Offset of a fragment in its datagram, in units of 8 bytes, and true if more follow.
type Place = (u16, bool);

/// The number of a SYN, and of the SYN-ACK that answers it.
const SEQUENCES: [u32; 2] = [1000, 2000];

impl Shape {
    /// Packets of such a protocol that open a flow until it stays: the client's first one, the
    /// backend's reply, and whatever else it takes.
    pub(crate) fn opening(protocol: Protocol) -> Vec<(Side, Self)> {
        let plain = Self {
            protocol,
            flags: Flags::default(),
            sequence: SEQUENCES[0],
            acknowledged: 0,
            chunk: 0,
            checksum: true,
            ip_options: 0,
            extensions: Vec::new(),
            tcp_options: 0,
            announced: None,
            class: 0,
            hop_limit: 64,
            identification: 0,
            payload: Vec::new(),
            padding: 0,
            report: None,
            envelope: None,
        };
        let segment = |syn, ack, [sequence, acknowledged]: [u32; 2]| Self {
            flags: Flags {
                syn,
                ack,
                ..Flags::default()
            },
            sequence,
            acknowledged,
            ..plain.clone()
        };
        let chunk = |chunk| Self {
            chunk,
            ..plain.clone()
        };
        let [client, backend] = SEQUENCES;
        match protocol {
            Protocol::TCP => vec![
                (Side::Client, segment(true, false, [client, 0])),
                (Side::Backend, segment(true, true, [backend, client + 1])),
                (
                    Side::Client,
                    segment(false, true, [client + 1, backend + 1]),
                ),
            ],
            // INIT, INIT ACK, COOKIE ECHO, COOKIE ACK.
            Protocol::SCTP => vec![
                (Side::Client, chunk(1)),
                (Side::Backend, chunk(2)),
                (Side::Client, chunk(10)),
                (Side::Backend, chunk(11)),
            ],
            _ => vec![
                (Side::Client, plain.clone()),
                (Side::Backend, plain.clone()),
                (Side::Client, plain),
            ],
        }
    }

    /// The frame of a whole packet between these ends.
    pub(crate) fn frame(&self, ends: Ends) -> Vec<u8> {
        let (source, destination) = (ends.source.ip, ends.destination.ip);
        let packet = match self.report {
            None => self.packet(ends, None),
            Some(report) => {
                let about = Ends {
                    protocol: ends.protocol,
                    source: ends.destination,
                    destination: ends.source,
                };
                let mut quoted = self.packet(about, None);
                quoted.truncate(report.quoted);
                let reporter = match source {
                    _ if !report.from_router => source,
                    IpAddr::V4(_) => [198, 51, 100, 254].into(),
                    IpAddr::V6(_) => [0x2001, 0xdb8, 0x51, 0, 0, 0, 0, 0xfe].into(),
                };
                let (number, message) = error(report.kind, reporter, destination, &quoted);
                self.network(reporter, destination, number, &message, None)
            }
        };
        self.link(&packet, source)
    }

    /// The frames of a datagram in three pieces.
    pub(crate) fn fragments(&self, ends: Ends) -> [Vec<u8>; 3] {
        let mut shape = self.clone();
        shape.report = None;
        let least = CUTS[1] + 8;
        shape.payload.resize(shape.payload.len().max(least), 7);
        let last = shape.segment(ends).len();
        let pieces = [(0, CUTS[0]), (CUTS[0], CUTS[1]), (CUTS[1], last)];
        pieces.map(|(from, to)| {
            let place = ((from / 8) as u16, to < last);
            shape.link(&shape.packet(ends, Some((from, to, place))), ends.source.ip)
        })
    }

    fn packet(&self, ends: Ends, piece: Option<(usize, usize, Place)>) -> Vec<u8> {
        let segment = self.segment(ends);
        let (bytes, place) = match piece {
            None => (segment, None),
            Some((from, to, place)) => (segment[from..to].to_vec(), Some(place)),
        };
        let Protocol(number) = ends.protocol;
        self.network(ends.source.ip, ends.destination.ip, number, &bytes, place)
    }

    /// The transport header and what follows it.
    fn segment(&self, ends: Ends) -> Vec<u8> {
        let (from, to) = (ends.source.port, ends.destination.port);
        let ips = (ends.source.ip, ends.destination.ip);
        let payload = &self.payload;
        let mut segment = match ends.protocol {
            Protocol::TCP => {
                let mut header = TcpHeader::new(from, to, self.sequence, 64240);
                header.acknowledgment_number = self.acknowledged;
                let Flags { syn, ack, fin, rst } = self.flags;
                (header.syn, header.ack, header.fin, header.rst) = (syn, ack, fin, rst);
                header.set_options_raw(&self.tcp_options()).unwrap();
                header.checksum = match ips {
                    (IpAddr::V4(from), IpAddr::V4(to)) => {
                        header.calc_checksum_ipv4_raw(from.octets(), to.octets(), payload)
                    }
                    (IpAddr::V6(from), IpAddr::V6(to)) => {
                        header.calc_checksum_ipv6_raw(from.octets(), to.octets(), payload)
                    }
                    _ => unreachable!("a packet is of one family"),
                }
                .unwrap();
                header.to_bytes().to_vec()
            }
            Protocol::UDP => {
                let length = (UdpHeader::LEN + payload.len()) as u16;
                let mut header = UdpHeader {
                    source_port: from,
                    destination_port: to,
                    length,
                    checksum: 0,
                };
                if self.checksum {
                    header.checksum = match ips {
                        (IpAddr::V4(from), IpAddr::V4(to)) => {
                            header.calc_checksum_ipv4_raw(from.octets(), to.octets(), payload)
                        }
                        (IpAddr::V6(from), IpAddr::V6(to)) => {
                            header.calc_checksum_ipv6_raw(from.octets(), to.octets(), payload)
                        }
                        _ => unreachable!("a packet is of one family"),
                    }
                    .unwrap();
                }
                header.to_bytes().to_vec()
            }
            _ => {
                let mut packet = [from.to_be_bytes(), to.to_be_bytes()].concat();
                packet.extend([0, 0, 0, 7, 0, 0, 0, 0, self.chunk, 0, 0, 4]);
                packet.extend(payload);
                if self.checksum {
                    let crc = crc32c::crc32c(&packet).to_le_bytes();
                    packet[8..12].copy_from_slice(&crc);
                }
                return packet;
            }
        };
        segment.extend(payload);
        segment
    }

    /// The network header, and what follows it.
    fn network(
        &self,
        source: IpAddr,
        destination: IpAddr,
        number: u8,
        payload: &[u8],
        place: Option<Place>,
    ) -> Vec<u8> {
        match (source, destination) {
            (IpAddr::V4(from), IpAddr::V4(to)) => {
                let length = payload.len() as u16;
                let (from, to) = (from.octets(), to.octets());
                let number = IpNumber(number);
                let mut header = Ipv4Header::new(0, self.hop_limit, number, from, to).unwrap();
                header.identification = self.identification;
                header.dscp = IpDscp::try_new(self.class >> 2).unwrap();
                header.ecn = IpEcn::try_new(self.class & 3).unwrap();
                let options = no_operations(self.ip_options);
                header.options = options.as_slice().try_into().unwrap();
                header.set_payload_len(length.into()).unwrap();
                if let Some((offset, more)) = place {
                    header.dont_fragment = false;
                    header.more_fragments = more;
                    header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
                }
                header.header_checksum = header.calc_header_checksum();
                [&header.to_bytes(), payload].concat()
            }
            (IpAddr::V6(from), IpAddr::V6(to)) => {
                let (first, extensions) = self.extensions(number, place);
                let header = Ipv6Header {
                    traffic_class: self.class,
                    flow_label: Ipv6FlowLabel::ZERO,
                    payload_length: (extensions.len() + payload.len()) as u16,
                    next_header: IpNumber(first),
                    hop_limit: self.hop_limit,
                    source: from.octets(),
                    destination: to.octets(),
                };
                [&header.to_bytes(), extensions.as_slice(), payload].concat()
            }
            _ => unreachable!("a packet is of one family"),
        }
    }

    /// The extension headers with that of a fragment behind them, before what has this number, and
    /// the number of the first.
    fn extensions(&self, number: u8, place: Option<Place>) -> (u8, Vec<u8>) {
        let (mut next, mut bytes) = (number, Vec::new());
        if let Some((offset, more)) = place {
            let [high, low] = (offset << 3 | u16::from(more)).to_be_bytes();
            let [a, b] = self.identification.to_be_bytes();
            bytes = vec![next, 0, high, low, 1, 2, a, b];
            next = FRAGMENT;
        }
        for extension in self.extensions.iter().rev() {
            let Extension {
                kind,
                length,
                segments_left,
            } = *extension;
            let (length, unit) = match kind {
                FRAGMENT => (0, 8),
                // Of IPv6, it is a multiple of 8 bytes long, too.
                51 => (length & !1, 4),
                _ => (length, 8),
            };
            let mut header = vec![0; 8 + usize::from(length) * unit];
            (header[0], header[1]) = (next, length);
            if kind == ROUTING {
                header[3] = segments_left;
            }
            header.append(&mut bytes);
            (next, bytes) = (kind, header);
        }
        (next, bytes)
    }

    fn tcp_options(&self) -> Vec<u8> {
        let Some((place, size)) = self.announced else {
            return no_operations(self.tcp_options);
        };
        let mut options = vec![1; place.into()];
        options.extend([2, 4]);
        options.extend(size.to_be_bytes());
        options.resize(options.len().next_multiple_of(4), 0);
        options
    }

    fn link(&self, packet: &[u8], source: IpAddr) -> Vec<u8> {
        let kind = if source.is_ipv4() {
            [8, 0]
        } else {
            [0x86, 0xdd]
        };
        let mut packet = packet.to_vec();
        if let Some(envelope) = self.envelope {
            for _ in 0..=u8::from(envelope.twice) {
                packet = envelope.around(&packet, source);
            }
        }
        let mut frame = [&TO[..], &FROM, &kind, packet.as_slice()].concat();
        frame.resize(frame.len() + self.padding, 0);
        frame
    }
}

/// An ICMP message that quotes a packet, and the number of its protocol.
fn error(kind: u8, source: IpAddr, destination: IpAddr, quoted: &[u8]) -> (u8, Vec<u8>) {
    let detail = [0, 0, 5, 0];
    let kind = usize::from(kind);
    match (source, destination) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let kinds = [(1, 4), (2, 0), (3, 0), (4, 1), (128, 0)];
            let (type_u8, code_u8) = kinds[kind % kinds.len()];
            let kind = Icmpv6Type::Unknown {
                type_u8,
                code_u8,
                bytes5to8: detail,
            };
            let (from, to) = (from.octets(), to.octets());
            let header = Icmpv6Header::with_checksum(kind, from, to, quoted).unwrap();
            (58, [&header.to_bytes(), quoted].concat())
        }
        _ => {
            let kinds = [(3, 3), (3, 4), (11, 0), (12, 0), (8, 0)];
            let (type_u8, code_u8) = kinds[kind % kinds.len()];
            let kind = Icmpv4Type::Unknown {
                type_u8,
                code_u8,
                bytes5to8: detail,
            };
            let header = Icmpv4Header::with_checksum(kind, quoted);
            (1, [&header.to_bytes(), quoted].concat())
        }
    }
}

/// So many words of "no operation", with an end of the list.
fn no_operations(words: usize) -> Vec<u8> {
    let mut options = vec![1; 4 * words];
    if let Some(last) = options.last_mut() {
        *last = 0;
    }
    options
}
