//! Transport headers: ports, and what a packet says of its connection.

use aya_ebpf::programs::TcContext;
use shunt_common::{ConntrackEntry, SCTP, TCP, Tuple, UDP, V4};

use crate::frame::{Unreadable, at};

/// What a transport header says.
#[derive(Clone, Copy)]
pub struct Transport {
    /// Source and destination port, network order.
    pub ports: Ports,
    /// Whether the packet may be the first of a flow.
    pub opens: bool,
    /// What it says to connection tracking.
    pub says: u16,
    /// How long the header is at least, a multiple of 4.
    pub least_length: usize,
    /// How long it is with its options.
    pub length: usize,
}

/// The source and destination port that every transport header begins with, network order.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Ports {
    pub source: u16,
    pub destination: u16,
}

impl Ports {
    /// Those of a tuple.
    #[inline(always)]
    pub const fn of<F: shunt_common::Family>(tuple: &Tuple<F>) -> Self {
        Self {
            source: tuple.source_port,
            destination: tuple.destination_port,
        }
    }

    /// Both as the word that they are in a packet.
    #[inline(always)]
    pub fn word(&self) -> u32 {
        let word = (&raw const *self).cast::<u32>();
        // SAFETY: a word is as long as two ports; on its alignment see `frame::at`.
        unsafe { *word }
    }
}

/// The header of a segment or datagram whose checksum covers ports and addresses.
pub trait Segment {
    /// Where the checksum is, from the begin of the header.
    const CHECKSUM_OFFSET: usize;
    /// Whether a checksum of 0 says that there is none.
    const ZERO_IS_NONE: bool;

    /// Whether the packet may be the first of a flow.
    fn opens(&self) -> bool;
    /// What it says to connection tracking.
    fn says(&self) -> u16;
    /// How long the header is with its options.
    fn length(&self) -> usize;
    /// The ports.
    fn ports(&mut self) -> &mut Ports;
    /// The checksum, as it stands in the packet.
    fn checksum(&self) -> u16;
}

/// The TCP header without options, RFC 9293 section 3.1, network order.
#[repr(C)]
pub struct TcpHeader {
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

impl Segment for TcpHeader {
    const CHECKSUM_OFFSET: usize = core::mem::offset_of!(Self, checksum);
    const ZERO_IS_NONE: bool = false;

    #[inline(always)]
    fn opens(&self) -> bool {
        self.flags & (TCP_SYN | TCP_ACK) == TCP_SYN
    }

    #[inline(always)]
    fn says(&self) -> u16 {
        let mut says = PACKET;
        if self.flags & TCP_FIN != 0 {
            says |= FIN;
        }
        if self.flags & TCP_RST != 0 {
            says |= RST;
        }
        says
    }

    #[inline(always)]
    fn length(&self) -> usize {
        usize::from(self.offset >> 4) * 4
    }

    #[inline(always)]
    fn ports(&mut self) -> &mut Ports {
        &mut self.ports
    }

    #[inline(always)]
    fn checksum(&self) -> u16 {
        self.checksum
    }
}

/// The UDP header, RFC 768, network order.
#[repr(C)]
pub struct UdpHeader {
    ports: Ports,
    length: u16,
    checksum: u16,
}

const _: () = assert!(size_of::<UdpHeader>() == 8, "RFC 768: two words");

impl Segment for UdpHeader {
    const CHECKSUM_OFFSET: usize = core::mem::offset_of!(Self, checksum);
    const ZERO_IS_NONE: bool = true;

    #[inline(always)]
    fn opens(&self) -> bool {
        true
    }

    #[inline(always)]
    fn says(&self) -> u16 {
        PACKET
    }

    #[inline(always)]
    fn length(&self) -> usize {
        size_of::<Self>()
    }

    #[inline(always)]
    fn ports(&mut self) -> &mut Ports {
        &mut self.ports
    }

    #[inline(always)]
    fn checksum(&self) -> u16 {
        self.checksum
    }
}

/// The SCTP common header with the header of the first chunk, RFC 9260 section 3, network order
/// but for the checksum. The chunks that say something to us come first in their packet.
#[repr(C)]
struct SctpHeader {
    ports: Ports,
    tag: u32,
    checksum: u32,
    chunk: u8,
    chunk_flags: u8,
    chunk_length: u16,
}

const _: () = assert!(
    size_of::<SctpHeader>() == 16,
    "RFC 9260: three words and one"
);

const SCTP_INIT: u8 = 1;
const SCTP_ABORT: u8 = 6;
const SCTP_SHUTDOWN_ACK: u8 = 8;
const SCTP_SHUTDOWN_COMPLETE: u8 = 14;

/// Where SCTP keeps its checksum, from the begin of its header.
pub const SCTP_CHECKSUM_OFFSET: usize = core::mem::offset_of!(SctpHeader, checksum);

/// The longest of the headers without options.
pub const LONGEST: usize = size_of::<TcpHeader>();

/// Whether packets of this protocol are translated.
#[inline(always)]
pub const fn is_translated(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

const PACKET: u16 = ConntrackEntry::<V4>::PACKET;
const FIN: u16 = ConntrackEntry::<V4>::FIN;
const RST: u16 = ConntrackEntry::<V4>::RST;

impl Transport {
    /// Reads the header of `protocol` at `offset`.
    #[inline(always)]
    pub fn read(context: &TcContext, protocol: u8, offset: usize) -> Result<Self, Unreadable> {
        match protocol {
            TCP => {
                let header = at::<TcpHeader>(context, offset)?;
                Ok(Self {
                    ports: header.ports,
                    opens: header.opens(),
                    says: header.says(),
                    least_length: size_of::<TcpHeader>(),
                    length: header.length(),
                })
            }
            UDP => {
                let header = at::<UdpHeader>(context, offset)?;
                Ok(Self {
                    ports: header.ports,
                    opens: header.opens(),
                    says: header.says(),
                    least_length: size_of::<UdpHeader>(),
                    length: header.length(),
                })
            }
            SCTP => {
                let header = at::<SctpHeader>(context, offset)?;
                let says = match header.chunk {
                    SCTP_ABORT => PACKET | RST,
                    SCTP_SHUTDOWN_ACK | SCTP_SHUTDOWN_COMPLETE => PACKET | FIN,
                    _ => PACKET,
                };
                let length = core::mem::offset_of!(SctpHeader, chunk);
                Ok(Self {
                    ports: header.ports,
                    opens: header.chunk == SCTP_INIT,
                    says,
                    least_length: length,
                    length,
                })
            }
            _ => Err(Unreadable::Foreign),
        }
    }
}
