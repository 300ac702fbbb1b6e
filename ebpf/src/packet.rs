//! Parsing: a packet is read once into a small tuple that everything else uses.

use core::ptr;

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, TCP, Tuple, UDP};

use crate::{counters::count, family::Family};

/// Where the network header begins: after an Ethernet header without tags.
pub const NETWORK_OFFSET: usize = 14;

/// A packet of a protocol that we translate.
pub struct Packet<F: Family> {
    /// Its addresses and ports as they came.
    pub tuple: Tuple<F>,
    /// [`TCP`] or [`UDP`].
    pub protocol: u8,
    /// Whether it may be the first of a flow: any UDP packet, a TCP SYN.
    pub may_open: bool,
    /// Offset of the transport header.
    pub transport: usize,
}

/// What the network header says.
pub struct Network<F: Family> {
    pub source: F::Address,
    pub destination: F::Address,
    pub protocol: u8,
    /// Offset of the transport header.
    pub transport: usize,
}

/// Why a packet could not be read.
pub enum Unreadable {
    /// Its headers go beyond what is there.
    Truncated,
    /// It is an IP fragment.
    Fragment,
    /// It is something that we do not translate.
    Foreign,
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

const TCP_SYN: u8 = 0x02;
const TCP_ACK: u8 = 0x10;

/// The UDP header, RFC 768, network order.
#[repr(C)]
struct UdpHeader {
    ports: Ports,
    length: u16,
    checksum: u16,
}

const _: () = assert!(size_of::<UdpHeader>() == 8, "RFC 768: two words");

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

    #[inline(always)]
    fn read(context: &TcContext) -> Result<Self, Unreadable> {
        let Network {
            source,
            destination,
            protocol,
            transport,
        } = F::read(context, NETWORK_OFFSET)?;
        let (ports, may_open) = match protocol {
            TCP => {
                let header = at::<TcpHeader>(context, transport)?;
                (&header.ports, header.flags & (TCP_SYN | TCP_ACK) == TCP_SYN)
            }
            UDP => (&at::<UdpHeader>(context, transport)?.ports, true),
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
            may_open,
            transport,
        })
    }
}

/// Ethernet, the longest IPv4 header and a TCP header.
const LONGEST_HEADERS: u32 = 14 + 60 + 20;

/// The `T` at `offset` of the packet's linear part.
///
/// `T` may stand at any address: this is a read as the BPF machine does it, which has no aligned
/// loads of its own on machines that can do without.
#[inline(always)]
pub fn at<T>(context: &TcContext, offset: usize) -> Result<&T, Unreadable> {
    let pointer = checked::<T>(context, offset)?;
    // SAFETY: `checked` compared the end of `T` with the end of the packet, as the verifier
    // demands; every bit pattern is a header.
    Ok(unsafe { &*pointer })
}

/// As [`at`], for writing.
#[inline(always)]
#[expect(
    clippy::mut_from_ref,
    reason = "the packet is not the context's own memory"
)]
pub fn at_mut<T>(context: &TcContext, offset: usize) -> Result<&mut T, Unreadable> {
    let pointer = checked::<T>(context, offset)?;
    // SAFETY: as in `at`; the caller holds no other reference into the packet.
    Ok(unsafe { &mut *pointer.cast_mut() })
}

#[inline(always)]
fn checked<T>(context: &TcContext, offset: usize) -> Result<*const T, Unreadable> {
    let start = context.data() + offset;
    if start + size_of::<T>() > context.data_end() {
        return Err(Unreadable::Truncated);
    }
    Ok(ptr::with_exposed_provenance(start))
}
