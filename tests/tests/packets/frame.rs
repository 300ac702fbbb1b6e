//! Frames: built by a library of its own, so that the programs' checksums are compared with
//! another author's.

use etherparse::{Ethernet2Header, IpNumber, TcpHeader, UdpHeader};

use super::address::{Address, Extension, Fragment, Header};

/// Sender of the frames.
pub(crate) const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Receiver of the frames: the kernel runs a program as if at the loopback interface, whose address is this.
pub(crate) const THIS_STATION: [u8; 6] = [0; 6];

/// Length of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;

/// Number that acknowledges [`Transport::TcpFin`] with the payload that packets have.
pub(crate) const FIN_ACKED: u32 = 1025;

/// A transport protocol with what its header holds besides ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Transport {
    /// A segment that opens a connection.
    TcpSyn,
    /// A segment that answers one, or opens a connection from both sides.
    TcpSynAck,
    /// A segment of an open connection.
    TcpAck,
    /// A segment of an open connection that acknowledges everything before this byte.
    TcpAcks(u32),
    /// A segment that ends its direction.
    TcpFin,
    /// A segment that ends its direction, as [`Self::TcpFin`] does, and acknowledges everything before this byte.
    TcpFinAcks(u32),
    /// A segment that ends the connection.
    TcpRst,
    /// One that would open it besides.
    TcpSynRst,
    /// One with this sequence number.
    TcpRstAt(u32),
    /// One that refuses the segment that ends at this byte.
    TcpRefusal(u32),
    /// A segment that opens a connection with this sequence number.
    TcpSynAt(u32),
    /// The answer to it.
    TcpSynAckTo(u32),
    /// A datagram.
    Udp,
    /// A datagram whose sender has not computed a checksum.
    UdpUnsummed,
    /// A packet whose first chunk is of this type.
    Sctp(u8),
}

/// The two transport protocols, each with a packet that may open a flow.
pub(crate) const OPENING: [Transport; 2] = [Transport::TcpSyn, Transport::Udp];

/// The type of the SCTP chunk that opens an association.
pub(crate) const SCTP_INIT: u8 = 1;

impl Transport {
    /// Returns the length of its header, without options.
    pub(crate) const fn header_length(self) -> usize {
        match self {
            Self::Udp | Self::UdpUnsummed => 8,
            Self::Sctp(_) => 12,
            _ => 20,
        }
    }

    const fn protocol(self) -> IpNumber {
        match self {
            Self::Udp | Self::UdpUnsummed => IpNumber::UDP,
            Self::Sctp(_) => IpNumber::SCTP,
            _ => IpNumber::TCP,
        }
    }
}

/// An IP packet in an Ethernet frame.
#[derive(Debug, Clone)]
pub(crate) struct Packet<A = [u8; 4]> {
    pub transport: Transport,
    pub source: (A, u16),
    pub destination: (A, u16),
    /// Number of hops that it may still make.
    pub time_to_live: u8,
    /// IPv4 options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    /// IPv6 extension headers.
    pub extensions: Vec<Extension>,
    pub payload: Vec<u8>,
}

impl<A: Address> Packet<A> {
    /// A packet with a small payload.
    pub(crate) fn new(transport: Transport, source: (A, u16), destination: (A, u16)) -> Self {
        Self {
            transport,
            source,
            destination,
            time_to_live: 64,
            options: Vec::new(),
            extensions: Vec::new(),
            payload: b"a payload of odd length".to_vec(),
        }
    }

    /// The same packet to another destination.
    pub(crate) fn to(&self, destination: (A, u16)) -> Self {
        Self {
            destination,
            ..self.clone()
        }
    }

    /// The same packet from another source.
    pub(crate) fn from(&self, source: (A, u16)) -> Self {
        Self {
            source,
            ..self.clone()
        }
    }

    /// The same packet with another transport header.
    pub(crate) fn with(&self, transport: Transport) -> Self {
        Self {
            transport,
            ..self.clone()
        }
    }

    /// The same packet with a payload of this length.
    pub(crate) fn of_payload(&self, length: usize) -> Self {
        Self {
            payload: (0..length).map(|place| (place * 7) as u8).collect(),
            ..self.clone()
        }
    }

    /// The same packet, one hop on.
    pub(crate) fn forwarded(&self) -> Self {
        Self {
            time_to_live: self.time_to_live - 1,
            ..self.clone()
        }
    }

    /// An answer to this packet.
    pub(crate) fn answer(&self) -> Self {
        Self {
            transport: match self.transport {
                Transport::TcpSyn => Transport::TcpSynAck,
                Transport::TcpSynAck
                | Transport::TcpAck
                | Transport::TcpAcks(_)
                | Transport::TcpFin
                | Transport::TcpFinAcks(_)
                | Transport::TcpRst
                | Transport::TcpSynRst
                | Transport::TcpRstAt(_)
                | Transport::TcpRefusal(_)
                | Transport::TcpSynAckTo(_) => Transport::TcpAck,
                Transport::TcpSynAt(number) => Transport::TcpSynAckTo(number.wrapping_add(1)),
                other => other,
            },
            source: self.destination,
            destination: self.source,
            ..self.clone()
        }
    }

    /// The frame, with right checksums.
    pub(crate) fn frame(&self) -> Vec<u8> {
        ethernet::<A>(NEIGHBOUR, THIS_STATION, &self.packet())
    }

    /// The frame as it is sent back to who sent it.
    pub(crate) fn returned_frame(&self) -> Vec<u8> {
        ethernet::<A>(THIS_STATION, NEIGHBOUR, &self.packet())
    }

    /// Returns the packet that the frame carries.
    pub(crate) fn packet(&self) -> Vec<u8> {
        A::packet(&self.header(None), &self.transport_bytes())
    }

    /// The packets of the datagram with this identification, with so many bytes each, a multiple
    /// of 8.
    pub(crate) fn fragments(&self, identification: u16, length: usize) -> Vec<Vec<u8>> {
        let bytes = self.transport_bytes();
        let count = bytes.len().div_ceil(length);
        let pieces = bytes.chunks(length).enumerate();
        pieces
            .map(|(place, piece)| {
                let fragment = Fragment {
                    identification,
                    offset: (place * length / 8) as u16,
                    is_last: place + 1 == count,
                };
                A::packet(&self.header(Some(fragment)), piece)
            })
            .collect()
    }

    /// Returns the length of the packet up to its payload.
    pub(crate) fn headers_length(&self) -> usize {
        self.packet().len() - self.payload.len()
    }

    /// Its network header, as a fragment or whole.
    pub(crate) fn header(&self, fragment: Option<Fragment>) -> Header<'_, A> {
        Header {
            protocol: self.transport.protocol(),
            source: self.source.0,
            destination: self.destination.0,
            time_to_live: self.time_to_live,
            identification: 4711,
            options: &self.options,
            extensions: &self.extensions,
            fragment,
        }
    }

    fn transport_bytes(&self) -> Vec<u8> {
        let Self {
            source: (source, source_port),
            destination: (destination, destination_port),
            payload,
            ..
        } = self;
        let tcp = |sequence, flags: &dyn Fn(&mut TcpHeader)| {
            let mut header = TcpHeader::new(*source_port, *destination_port, sequence, 64240);
            flags(&mut header);
            header.checksum = A::tcp_checksum(&header, *source, *destination, payload);
            header.to_bytes().to_vec()
        };
        let mut udp = UdpHeader {
            source_port: *source_port,
            destination_port: *destination_port,
            length: (8 + payload.len()) as u16,
            checksum: 0,
        };
        let mut bytes = match self.transport {
            Transport::TcpSyn => tcp(1000, &|header| header.syn = true),
            // What it begins with is what the others acknowledge.
            Transport::TcpSynAck => tcp(76, &|header| {
                (header.syn, header.ack, header.acknowledgment_number) = (true, true, 1001);
            }),
            Transport::TcpAck => tcp(1001, &|header| {
                (header.ack, header.acknowledgment_number) = (true, 77);
            }),
            Transport::TcpAcks(number) => tcp(1001, &|header| {
                (header.ack, header.acknowledgment_number) = (true, number);
            }),
            Transport::TcpFin => tcp(1001, &|header| {
                (header.fin, header.ack, header.acknowledgment_number) = (true, true, 77);
            }),
            Transport::TcpFinAcks(number) => tcp(1001, &|header| {
                (header.fin, header.ack, header.acknowledgment_number) = (true, true, number);
            }),
            Transport::TcpRst => tcp(1001, &|header| header.rst = true),
            Transport::TcpSynRst => tcp(1000, &|header| (header.syn, header.rst) = (true, true)),
            Transport::TcpRstAt(sequence) => tcp(sequence, &|header| header.rst = true),
            Transport::TcpRefusal(number) => tcp(0, &|header| {
                (header.rst, header.ack, header.acknowledgment_number) = (true, true, number);
            }),
            Transport::TcpSynAt(sequence) => tcp(sequence, &|header| header.syn = true),
            Transport::TcpSynAckTo(number) => tcp(8076, &|header| {
                (header.syn, header.ack, header.acknowledgment_number) = (true, true, number);
            }),
            Transport::UdpUnsummed => udp.to_bytes().to_vec(),
            Transport::Udp => {
                udp.checksum = A::udp_checksum(&udp, *source, *destination, payload);
                udp.to_bytes().to_vec()
            }
            Transport::Sctp(chunk) => {
                return sctp(chunk, *source_port, *destination_port, payload);
            }
        };
        bytes.extend(payload);
        bytes
    }
}

/// An SCTP packet of one chunk (RFC 9260 section 3).
fn sctp(chunk: u8, source_port: u16, destination_port: u16, value: &[u8]) -> Vec<u8> {
    let mut bytes = [source_port.to_be_bytes(), destination_port.to_be_bytes()].concat();
    bytes.extend(0x5eed_f00d_u32.to_be_bytes());
    bytes.extend([0; 4]);
    bytes.extend([chunk, 0]);
    bytes.extend(((4 + value.len()) as u16).to_be_bytes());
    bytes.extend(value);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    let checksum = crc32c::crc32c(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// A frame with this packet.
pub(crate) fn ethernet<A: Address>(
    source: [u8; 6],
    destination: [u8; 6],
    packet: &[u8],
) -> Vec<u8> {
    let header = Ethernet2Header {
        source,
        destination,
        ether_type: A::ETHER_TYPE,
    };
    [header.to_bytes().as_slice(), packet].concat()
}

/// A frame from the neighbour with this packet.
pub(crate) fn framed<A: Address>(packet: &[u8]) -> Vec<u8> {
    ethernet::<A>(NEIGHBOUR, THIS_STATION, packet)
}

/// The source of a frame without options.
pub(crate) fn source_of<A: Address>(frame: &[u8]) -> (A, u16) {
    endpoint(frame, 0)
}

/// The destination of a frame without options.
pub(crate) fn destination_of<A: Address>(frame: &[u8]) -> (A, u16) {
    endpoint(frame, 1)
}

fn endpoint<A: Address>(frame: &[u8], which: usize) -> (A, u16) {
    let address = ETHERNET + A::SOURCE + which * size_of::<A>();
    let port = ETHERNET + A::HEADER + which * 2;
    (
        A::of(&frame[address..address + size_of::<A>()]),
        u16::from_be_bytes([frame[port], frame[port + 1]]),
    )
}

/// The source of an IPv4 frame without options.
pub(crate) fn source(frame: &[u8]) -> ([u8; 4], u16) {
    source_of(frame)
}

/// The destination of an IPv4 frame without options.
pub(crate) fn destination(frame: &[u8]) -> ([u8; 4], u16) {
    destination_of(frame)
}
