//! Transport headers: ports, and the signal of a packet to its connection.

use shunt_common::{SCTP, TCP, UDP, connections::Signal};

use crate::{
    ctx::access::Access,
    packet::{
        error::ParseError,
        segment::{Ports, Segment as _, TcpHeader, UdpHeader},
    },
};

/// The contents of a transport header.
#[derive(Clone, Copy)]
pub(crate) struct Transport {
    /// Source and destination port, network order.
    pub ports: Ports,
    /// True if the packet may be the first of a connection.
    pub may_be_first: bool,
    /// Signal to its connection, as if nothing followed the header.
    pub signal: Signal,
    /// Minimum length of the header, a multiple of 4.
    pub least_length: usize,
    /// Length of the header with its options.
    pub length: usize,
}

/// The SCTP common header, RFC 9260 section 3.1, network order but for the checksum. Behind it is the type of the first
/// chunk: the chunks that concern us come first in their packet.
#[repr(C)]
struct SctpHeader {
    ports: Ports,
    tag: u32,
    checksum: u32,
}

const _: () = assert!(size_of::<SctpHeader>() == 12, "RFC 9260: three words");

/// Offset of an INIT's initiate tag from its chunk's begin, RFC 9260 section 3.3.2.
const SCTP_INITIATE_TAG: usize = 4;

const SCTP_INIT: u8 = 1;
const SCTP_INIT_ACK: u8 = 2;
const SCTP_ABORT: u8 = 6;
const SCTP_SHUTDOWN_ACK: u8 = 8;
const SCTP_SHUTDOWN_COMPLETE: u8 = 14;

/// Offset of SCTP's checksum from the begin of its header.
pub(crate) const SCTP_CHECKSUM_OFFSET: usize = core::mem::offset_of!(SctpHeader, checksum);

/// The longest of the headers without options.
pub(crate) const LONGEST: usize = size_of::<TcpHeader>();

/// Returns whether packets of this protocol are translated.
#[inline(always)]
pub(crate) const fn is_translated(protocol: u8) -> bool {
    matches!(protocol, TCP | UDP | SCTP)
}

impl Transport {
    /// Reads the header of `protocol` at `offset`.
    #[inline(always)]
    pub(crate) fn read(
        context: &impl Access,
        protocol: u8,
        offset: usize,
    ) -> Result<Self, ParseError> {
        match protocol {
            TCP => {
                let header = context.at::<TcpHeader>(offset)?;
                Ok(Self {
                    ports: header.ports,
                    may_be_first: header.may_be_first(),
                    signal: header.signal(|| 0),
                    least_length: size_of::<TcpHeader>(),
                    length: header.length(),
                })
            }
            UDP => {
                let header = context.at::<UdpHeader>(offset)?;
                Ok(Self {
                    ports: header.ports,
                    may_be_first: header.may_be_first(),
                    signal: header.signal(|| 0),
                    least_length: size_of::<UdpHeader>(),
                    length: header.length(),
                })
            }
            SCTP => {
                let ports = context.at::<SctpHeader>(offset)?.ports;
                let length = size_of::<SctpHeader>();
                // Not always in the linear part: where the kernel is still to cut the packet, that has this header alone.
                let chunk = context.byte(offset + length)?;
                let signal = match chunk {
                    SCTP_INIT => {
                        let tag = context.at::<u32>(offset + length + SCTP_INITIATE_TAG);
                        Signal::open(tag.map_or(0, |tag| u32::from_be(*tag)))
                    }
                    SCTP_INIT_ACK => Signal::answer(0),
                    SCTP_ABORT => Signal::RESET,
                    SCTP_SHUTDOWN_ACK | SCTP_SHUTDOWN_COMPLETE => Signal::FIN,
                    _ => Signal::DATA,
                };
                Ok(Self {
                    ports,
                    may_be_first: chunk == SCTP_INIT,
                    signal,
                    least_length: length,
                    length,
                })
            }
            _ => Err(ParseError::Foreign),
        }
    }
}
