//! Headers of segments and datagrams whose checksum covers ports and addresses: TCP and UDP.

use shunt_common::{Tuple, connections::Signal};

/// The source and destination port that every transport header begins with, network order.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Ports {
    pub source: u16,
    pub destination: u16,
}

impl Ports {
    /// Returns the ports of a tuple.
    #[inline(always)]
    pub(crate) const fn of<F: shunt_common::Family>(tuple: &Tuple<F>) -> Self {
        Self {
            source: tuple.source_port,
            destination: tuple.destination_port,
        }
    }

    /// Both as the word that they are in a packet.
    #[inline(always)]
    #[expect(
        clippy::cast_ptr_alignment,
        reason = "a header may stand at any address, see `Access::at`"
    )]
    pub(crate) fn word(&self) -> u32 {
        let word = (&raw const *self).cast::<u32>();
        // SAFETY: a word is as long as two ports; on its alignment see `Access::at`.
        unsafe { *word }
    }
}

/// The header of a segment or datagram whose checksum covers ports and addresses.
pub(crate) trait Segment {
    /// Offset of the checksum from the begin of the header.
    const CHECKSUM_OFFSET: usize;
    /// True if a checksum of 0 means that there is none.
    const ZERO_IS_NONE: bool;

    /// Returns whether the packet may be the first of a connection.
    fn may_be_first(&self) -> bool;
    /// Returns its signal to its connection, if so many bytes follow the header.
    fn signal(&self, payload: impl FnOnce() -> usize) -> Signal;
    /// Returns the length of the header with its options.
    fn length(&self) -> usize;
    /// The ports.
    fn ports(&self) -> &Ports;
    /// The checksum, as it stands in the packet.
    fn checksum(&self) -> u16;
}

/// The TCP header without options, RFC 9293 section 3.1, network order.
#[repr(C)]
pub(crate) struct TcpHeader {
    pub ports: Ports,
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
    fn may_be_first(&self) -> bool {
        self.flags & (TCP_SYN | TCP_ACK) == TCP_SYN
    }

    #[inline(always)]
    fn signal(&self, payload: impl FnOnce() -> usize) -> Signal {
        if self.flags & TCP_RST != 0 {
            let signal = Signal::reset(u32::from_be(self.sequence));
            return if self.flags & TCP_ACK == 0 {
                signal
            } else {
                signal.to(u32::from_be(self.acknowledgement))
            };
        }
        match self.flags & (TCP_SYN | TCP_ACK) {
            TCP_SYN => return Signal::open(u32::from_be(self.sequence)),
            // No host takes a FIN without ACK (RFC 9293 section 3.10.7.4).
            0 => return Signal::DATA,
            TCP_ACK => {}
            _ => {
                let number = u32::from_be(self.sequence).wrapping_add(1);
                return Signal::answer(number).to(u32::from_be(self.acknowledgement));
            }
        }
        let signal = Signal::acknowledge(u32::from_be(self.acknowledgement));
        if self.flags & TCP_FIN != 0 {
            let end = u32::from_be(self.sequence)
                .wrapping_add(payload() as u32)
                .wrapping_add(1);
            signal.with_fin(end)
        } else {
            signal
        }
    }

    #[inline(always)]
    fn length(&self) -> usize {
        usize::from(self.offset >> 4) * 4
    }

    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn checksum(&self) -> u16 {
        self.checksum
    }
}

/// The UDP header, RFC 768, network order.
#[repr(C)]
pub(crate) struct UdpHeader {
    pub ports: Ports,
    length: u16,
    checksum: u16,
}

const _: () = assert!(size_of::<UdpHeader>() == 8, "RFC 768: two words");

impl Segment for UdpHeader {
    const CHECKSUM_OFFSET: usize = core::mem::offset_of!(Self, checksum);
    const ZERO_IS_NONE: bool = true;

    #[inline(always)]
    fn may_be_first(&self) -> bool {
        true
    }

    #[inline(always)]
    fn signal(&self, _: impl FnOnce() -> usize) -> Signal {
        Signal::DATA
    }

    #[inline(always)]
    fn length(&self) -> usize {
        size_of::<Self>()
    }

    #[inline(always)]
    fn ports(&self) -> &Ports {
        &self.ports
    }

    #[inline(always)]
    fn checksum(&self) -> u16 {
        self.checksum
    }
}
