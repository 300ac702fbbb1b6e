//! Parsing: a packet is read once into a small tuple that everything else uses.

use aya_ebpf::programs::TcContext;
use shunt_common::{ConntrackEntry, Counter, TCP, Tuple, UDP};

use crate::{
    counters::count,
    family::{Family, Network},
    frame::{Unreadable, at},
};

/// Where the network header begins: after an Ethernet header without tags.
pub const NETWORK_OFFSET: usize = 14;

/// A packet of a protocol that we translate.
pub struct Packet<F: Family> {
    /// Its addresses and ports as they came.
    pub tuple: Tuple<F>,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// The flags of a TCP segment; 0 for UDP.
    flags: u8,
    /// Offset of the transport header.
    pub transport: usize,
    /// Offset of what follows it.
    pub payload: usize,
}

/// The source and destination port that every transport header begins with, network order.
#[repr(C)]
pub struct Ports {
    pub source: u16,
    pub destination: u16,
}

/// The TCP header without options, RFC 9293 section 3.1, network order.
#[repr(C)]
struct TcpHeader {
    ports: Ports,
    sequence: u32,
    acknowledgement: u32,
    offset: u8,
    flags: u8,
    window: u16,
    checksum: u16,
    urgent: u16,
}

const _: () = assert!(size_of::<TcpHeader>() == 20, "RFC 9293: five words");

const TCP_FIN: u8 = 0x01;
const TCP_SYN: u8 = 0x02;
const TCP_RST: u8 = 0x04;
const TCP_ACK: u8 = 0x10;

/// The UDP header, RFC 768, network order.
#[repr(C)]
struct UdpHeader {
    ports: Ports,
    length: u16,
    checksum: u16,
}

const _: () = assert!(size_of::<UdpHeader>() == 8, "RFC 768: two words");

/// How long a transport header is without options.
pub const TCP_LENGTH: usize = size_of::<TcpHeader>();
/// How long a transport header is without options.
pub const UDP_LENGTH: usize = size_of::<UdpHeader>();
/// Where a protocol keeps its checksum, from the begin of its header.
pub const TCP_CHECKSUM_OFFSET: usize = core::mem::offset_of!(TcpHeader, checksum);
/// Where a protocol keeps its checksum, from the begin of its header.
pub const UDP_CHECKSUM_OFFSET: usize = core::mem::offset_of!(UdpHeader, checksum);

impl<F: Family> Packet<F> {
    /// Reads the packet, or says by `None` that it is to be passed untouched; what would have
    /// been ours but for its form is counted.
    ///
    /// A packet whose headers are not in its linear part has them pulled there and is read again.
    #[inline(always)]
    pub fn parse(context: &TcContext) -> Option<Self> {
        let mut read = Self::read(context);
        if let Err(Unreadable::Truncated) = read
            && (context.data_end() - context.data()) < context.len() as usize
            && context
                .pull_data(context.len().min(LONGEST_HEADERS))
                .is_ok()
        {
            read = Self::read(context);
        }
        match read {
            Ok(packet) => return Some(packet),
            Err(Unreadable::Truncated) => count(Counter::PassTruncated),
            Err(Unreadable::Fragment) => count(Counter::PassFragment),
            Err(Unreadable::Foreign) => {}
        }
        None
    }

    /// Whether it may be the first of a flow: any UDP packet, a TCP SYN.
    #[inline(always)]
    pub fn may_open(&self) -> bool {
        self.protocol == UDP || self.flags & (TCP_SYN | TCP_ACK) == TCP_SYN
    }

    /// What the packet says to connection tracking.
    #[inline(always)]
    pub fn says(&self) -> u16 {
        let mut says = ConntrackEntry::<F>::PACKET;
        if self.flags & TCP_FIN != 0 {
            says |= ConntrackEntry::<F>::FIN;
        }
        if self.flags & TCP_RST != 0 {
            says |= ConntrackEntry::<F>::RST;
        }
        says
    }

    #[inline(always)]
    fn read(context: &TcContext) -> Result<Self, Unreadable> {
        let Network {
            source,
            destination,
            protocol,
            transport,
        } = F::read(context, NETWORK_OFFSET)?;
        let (ports, flags, length) = match protocol {
            TCP => {
                let header = at::<TcpHeader>(context, transport)?;
                let length = usize::from(header.offset >> 4) * 4;
                (&header.ports, header.flags, length)
            }
            UDP => (&at::<UdpHeader>(context, transport)?.ports, 0, UDP_LENGTH),
            _ => return Err(Unreadable::Foreign),
        };
        Ok(Self {
            tuple: Tuple {
                source,
                destination,
                source_port: ports.source,
                destination_port: ports.destination,
            },
            protocol,
            flags,
            transport,
            payload: transport + length,
        })
    }
}

/// Ethernet, the longest IPv4 header and a TCP header.
const LONGEST_HEADERS: u32 = 14 + 60 + 20;
