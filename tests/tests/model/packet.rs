//! Packets as values, and the frames that they are. A frame is always made from scratch, by a
//! library of its own: whatever the programs do to a checksum, here it is summed anew.

use std::{fmt, net::Ipv4Addr};

use etherparse::{
    Icmpv4Type, IpHeaders, IpNumber, Ipv4Header, NetHeaders, PacketBuilder, PacketHeaders,
    TcpHeader, TransportHeader, icmpv4::DestUnreachableHeader,
};

use super::cluster::{Endpoint, Protocol};

const FROM: [u8; 6] = [2, 0, 0, 0, 0, 1];
const TO: [u8; 6] = [0; 6];

const ETHERNET: usize = 14;

/// The flags of a TCP segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags {
    pub syn: bool,
    pub ack: bool,
    pub fin: bool,
    pub rst: bool,
}

/// What makes a packet unreadable, or something else than it seems.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The frame ends after so many bytes.
    Cut(usize),
    /// The flags and offset of a fragment.
    Fragment(u16),
    /// Another protocol number.
    Protocol(u8),
    /// Another Ethernet type.
    EtherType(u16),
    /// Another first byte of the IP header.
    FirstByte(u8),
}

/// How a packet is to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Whole,
    Truncated,
    Fragment,
    Foreign,
}

/// A packet in an Ethernet frame.
#[derive(Clone, PartialEq, Eq)]
pub struct Packet {
    pub protocol: Protocol,
    pub source: Endpoint,
    pub destination: Endpoint,
    pub flags: Flags,
    /// UDP without it has 0 in its place.
    pub checksum: bool,
    /// Words of IP options, up to 10.
    pub ip_options: usize,
    /// Words of TCP options, up to 10.
    pub tcp_options: usize,
    pub time_to_live: u8,
    pub identification: u16,
    pub payload: Vec<u8>,
    /// Bytes behind the IP packet, as short Ethernet frames have them.
    pub padding: usize,
    pub damage: Option<Damage>,
    /// Sent back to the station that it came from.
    pub turned: bool,
}

impl Packet {
    /// How it is to be taken.
    pub fn form(&self) -> Form {
        match self.damage {
            None => Form::Whole,
            Some(Damage::Cut(length)) if length < self.headers() => Form::Truncated,
            Some(Damage::Cut(_)) => Form::Whole,
            Some(Damage::Fragment(_)) => Form::Fragment,
            Some(Damage::Protocol(_) | Damage::EtherType(_) | Damage::FirstByte(_)) => {
                Form::Foreign
            }
        }
    }

    /// Whether it may be the first of a flow.
    pub fn may_open(&self) -> bool {
        self.protocol == Protocol::Udp || self.flags.syn && !self.flags.ack
    }

    /// Whether it ends what its sender has to say.
    pub fn ends(&self) -> bool {
        self.protocol == Protocol::Tcp && (self.flags.fin || self.flags.rst)
    }

    /// The same packet between others.
    pub fn between(&self, source: Endpoint, destination: Endpoint) -> Self {
        Self {
            source,
            destination,
            ..self.clone()
        }
    }

    /// The same packet, one hop further.
    pub fn forwarded(self) -> Self {
        Self {
            time_to_live: self.time_to_live - 1,
            ..self
        }
    }

    /// The same packet, sent back to the station that it came from.
    pub fn turned(self) -> Self {
        Self {
            turned: true,
            ..self
        }
    }

    /// The length of the frame's headers, without TCP options: what has to be there.
    fn headers(&self) -> usize {
        let transport = match self.protocol {
            Protocol::Tcp => 20,
            Protocol::Udp => 8,
        };
        ETHERNET + 20 + 4 * self.ip_options + transport
    }

    /// The frame.
    pub fn frame(&self) -> Vec<u8> {
        let (from, to) = if self.turned { (TO, FROM) } else { (FROM, TO) };
        let header = self.ip_header();
        let builder =
            PacketBuilder::ethernet2(from, to).ip(IpHeaders::Ipv4(header, Default::default()));
        let mut frame = Vec::with_capacity(256);
        match self.protocol {
            Protocol::Tcp => builder
                .tcp_header(self.tcp_header())
                .write(&mut frame, &self.payload),
            Protocol::Udp => builder
                .udp(self.source.port, self.destination.port)
                .write(&mut frame, &self.payload),
        }
        .unwrap();
        let transport = ETHERNET + 20 + 4 * self.ip_options;
        if self.protocol == Protocol::Udp && !self.checksum {
            frame[transport + 6..transport + 8].fill(0);
        }
        frame.resize(frame.len() + self.padding, 0);
        self.apply_damage(&mut frame);
        frame
    }

    /// The ICMP "port unreachable" that answers it: from its destination, quoting its network and
    /// transport header.
    pub fn unreachable(&self) -> Vec<u8> {
        let quoted = &self.frame()[ETHERNET..self.headers()];
        let length = 8 + quoted.len() as u16;
        let (from, to) = (self.destination.ip.octets(), self.source.ip.octets());
        let mut header = Ipv4Header::new(length, 64, IpNumber::ICMP, from, to).unwrap();
        header.dont_fragment = true;
        let port = Icmpv4Type::DestinationUnreachable(DestUnreachableHeader::Port);
        let mut answer = Vec::new();
        PacketBuilder::ethernet2(TO, FROM)
            .ip(IpHeaders::Ipv4(header, Default::default()))
            .icmpv4(port)
            .write(&mut answer, quoted)
            .unwrap();
        answer
    }

    fn ip_header(&self) -> Ipv4Header {
        let (source, destination) = (self.source.ip.octets(), self.destination.ip.octets());
        let mut header =
            Ipv4Header::new(0, self.time_to_live, IpNumber::TCP, source, destination).unwrap();
        header.identification = self.identification;
        header.options = no_operations(self.ip_options)
            .as_slice()
            .try_into()
            .unwrap();
        header
    }

    fn tcp_header(&self) -> TcpHeader {
        let mut header = TcpHeader::new(self.source.port, self.destination.port, 1000, 64240);
        let Flags { syn, ack, fin, rst } = self.flags;
        (header.syn, header.ack, header.fin, header.rst) = (syn, ack, fin, rst);
        header
            .set_options_raw(&no_operations(self.tcp_options))
            .unwrap();
        header
    }

    fn apply_damage(&self, frame: &mut Vec<u8>) {
        match self.damage {
            None => {}
            Some(Damage::Cut(length)) => frame.truncate(length),
            Some(Damage::Fragment(field)) => {
                frame[20..22].copy_from_slice(&field.to_be_bytes());
            }
            Some(Damage::Protocol(number)) => frame[23] = number,
            Some(Damage::EtherType(kind)) => {
                frame[12..14].copy_from_slice(&kind.to_be_bytes());
                // The kernel's test run takes no IPv6 frame without a whole header.
                frame.resize(frame.len().max(ETHERNET + 40), 0);
            }
            Some(Damage::FirstByte(byte)) => frame[14] = byte,
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

impl fmt::Debug for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            protocol,
            source,
            destination,
            flags,
            checksum,
            ip_options,
            tcp_options,
            time_to_live,
            identification: _,
            payload,
            padding,
            damage,
            turned: _,
        } = self;
        write!(f, "{source:?} > {destination:?} {protocol:?}")?;
        let Flags { syn, ack, fin, rst } = flags;
        let tcp = *protocol == Protocol::Tcp;
        for (set, name) in [
            (tcp && *syn, "SYN"),
            (tcp && *ack, "ACK"),
            (tcp && *fin, "FIN"),
            (tcp && *rst, "RST"),
            (!tcp && !checksum, "without checksum"),
        ] {
            if set {
                write!(f, " {name}")?;
            }
        }
        write!(f, " ttl {time_to_live} length {}", payload.len())?;
        for (count, name) in [
            (*ip_options, "words of IP options"),
            (*tcp_options, "words of TCP options"),
            (*padding, "bytes of padding"),
        ] {
            if count > 0 {
                write!(f, " {count} {name}")?;
            }
        }
        damage.map_or(Ok(()), |damage| write!(f, " {damage:?}"))
    }
}

/// Who a frame says that it is from and to; all of it if it does not say.
pub fn describe(frame: &[u8]) -> String {
    let Ok(headers) = PacketHeaders::from_ethernet_slice(frame) else {
        return hexadecimal(frame);
    };
    let Some(NetHeaders::Ipv4(header, _)) = headers.net else {
        return hexadecimal(frame);
    };
    let [source, destination] = [header.source, header.destination].map(Ipv4Addr::from);
    let (protocol, ports) = match headers.transport {
        Some(TransportHeader::Tcp(tcp)) => ("TCP", Some((tcp.source_port, tcp.destination_port))),
        Some(TransportHeader::Udp(udp)) => ("UDP", Some((udp.source_port, udp.destination_port))),
        Some(TransportHeader::Icmpv4(icmp)) => {
            return format!("{source} > {destination} {:?}", icmp.icmp_type);
        }
        _ => ("without ports", None),
    };
    match ports {
        Some((from, to)) => format!("{source}:{from} > {destination}:{to} {protocol}"),
        None => format!("{source} > {destination} {protocol}"),
    }
}

/// Bytes, for people.
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
