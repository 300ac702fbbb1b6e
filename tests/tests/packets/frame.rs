//! Frames: built by a library of its own, so that the programs' checksums are compared with
//! somebody else's.

use etherparse::PacketBuilder;

/// Who sends the frames.
pub const NEIGHBOUR: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Who receives them: the kernel runs a program as if at the loopback interface, whose address
/// is this.
pub const THIS_STATION: [u8; 6] = [0; 6];

/// A transport protocol with what its header holds besides ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// A segment that opens a connection.
    TcpSyn,
    /// A segment of an open connection.
    TcpAck,
    /// A segment that ends its direction.
    TcpFin,
    /// A segment that ends the connection.
    TcpRst,
    /// A datagram.
    Udp,
}

/// The two transport protocols, each with a packet that may open a flow.
pub const OPENING: [Transport; 2] = [Transport::TcpSyn, Transport::Udp];

/// An IPv4 packet in an Ethernet frame.
#[derive(Debug, Clone)]
pub struct Packet {
    pub transport: Transport,
    pub source: ([u8; 4], u16),
    pub destination: ([u8; 4], u16),
    /// How many more hops it may make.
    pub time_to_live: u8,
    /// IPv4 options, a multiple of 4 bytes.
    pub options: Vec<u8>,
    pub payload: Vec<u8>,
}

impl Packet {
    /// A packet with a small payload.
    pub fn new(transport: Transport, source: ([u8; 4], u16), destination: ([u8; 4], u16)) -> Self {
        Self {
            transport,
            source,
            destination,
            time_to_live: 64,
            options: Vec::new(),
            payload: b"a payload of odd length".to_vec(),
        }
    }

    /// The same packet to another destination.
    pub fn to(&self, destination: ([u8; 4], u16)) -> Self {
        Self {
            destination,
            ..self.clone()
        }
    }

    /// The same packet from another source.
    pub fn from(&self, source: ([u8; 4], u16)) -> Self {
        Self {
            source,
            ..self.clone()
        }
    }

    /// The same packet with another transport header.
    pub fn with(&self, transport: Transport) -> Self {
        Self {
            transport,
            ..self.clone()
        }
    }

    /// The same packet, one hop on.
    pub fn forwarded(&self) -> Self {
        Self {
            time_to_live: self.time_to_live - 1,
            ..self.clone()
        }
    }

    /// An answer to this packet.
    pub fn answer(&self) -> Self {
        Self {
            transport: match self.transport {
                Transport::Udp => Transport::Udp,
                _ => Transport::TcpAck,
            },
            source: self.destination,
            destination: self.source,
            ..self.clone()
        }
    }

    /// The frame, with right checksums.
    pub fn frame(&self) -> Vec<u8> {
        let Self {
            transport,
            source: (source, source_port),
            destination: (destination, destination_port),
            time_to_live,
            options,
            payload,
        } = self;
        let mut header = etherparse::Ipv4Header::new(
            0,
            *time_to_live,
            etherparse::IpNumber::TCP,
            *source,
            *destination,
        )
        .unwrap();
        header.identification = 4711;
        header.options = options.as_slice().try_into().unwrap();
        let ip = PacketBuilder::ethernet2(NEIGHBOUR, THIS_STATION)
            .ip(etherparse::IpHeaders::Ipv4(header, Default::default()));
        let mut frame = Vec::new();
        match transport {
            Transport::TcpSyn => ip
                .tcp(*source_port, *destination_port, 1000, 64240)
                .syn()
                .write(&mut frame, payload),
            Transport::TcpAck => ip
                .tcp(*source_port, *destination_port, 1001, 64240)
                .ack(77)
                .write(&mut frame, payload),
            Transport::TcpFin => ip
                .tcp(*source_port, *destination_port, 1001, 64240)
                .ack(77)
                .fin()
                .write(&mut frame, payload),
            Transport::TcpRst => ip
                .tcp(*source_port, *destination_port, 1001, 64240)
                .rst()
                .write(&mut frame, payload),
            Transport::Udp => ip
                .udp(*source_port, *destination_port)
                .write(&mut frame, payload),
        }
        .unwrap();
        frame
    }
}

/// The ICMP "port unreachable" that answers `frame`, a frame of `packet`.
pub fn unreachable(packet: &Packet, frame: &[u8]) -> Vec<u8> {
    let port = etherparse::icmpv4::DestUnreachableHeader::Port;
    error(
        packet,
        frame,
        etherparse::Icmpv4Type::DestinationUnreachable(port),
    )
}

/// The ICMP error of this kind that answers `frame`, a frame of `packet`: with the stations of its
/// Ethernet header exchanged, from its destination, quoting its network and transport header.
pub fn error(packet: &Packet, frame: &[u8], kind: etherparse::Icmpv4Type) -> Vec<u8> {
    let transport = match packet.transport {
        Transport::Udp => 8,
        _ => 20,
    };
    let quoted = &frame[14..14 + 20 + packet.options.len() + transport];
    let (client, frontend) = (packet.source.0, packet.destination.0);
    let mut header = etherparse::Ipv4Header::new(
        8 + quoted.len() as u16,
        64,
        etherparse::IpNumber::ICMP,
        frontend,
        client,
    )
    .unwrap();
    header.dont_fragment = true;
    let mut answer = Vec::new();
    PacketBuilder::ethernet2(THIS_STATION, NEIGHBOUR)
        .ip(etherparse::IpHeaders::Ipv4(header, Default::default()))
        .icmpv4(kind)
        .write(&mut answer, quoted)
        .unwrap();
    answer
}

/// The source of a frame without IPv4 options.
pub fn source(frame: &[u8]) -> ([u8; 4], u16) {
    let address = frame[26..30].try_into().unwrap();
    (address, u16::from_be_bytes([frame[34], frame[35]]))
}

/// The destination of a frame without IPv4 options.
pub fn destination(frame: &[u8]) -> ([u8; 4], u16) {
    let address = frame[30..34].try_into().unwrap();
    (address, u16::from_be_bytes([frame[36], frame[37]]))
}
