//! Putting an ICMP error (RFC 792, RFC 4443) in the place of the packet that it is about.

use shunt_common::Sum;

use crate::{
    ctx::access::{Access, AccessError},
    packet::{inner::IcmpHeader, parsed::Packet, transport},
    rewrite::network::{HeaderMut as _, Rewrite},
};

/// More than a message is long; the verifier wants the bound stated.
const LONGEST_MESSAGE: usize = 0x1ff;

/// Error that a packet's sender gets.
#[derive(Clone, Copy)]
pub(crate) enum IcmpError {
    /// The port has no listener.
    PortUnreachable,
    /// The hop limit is used up.
    Expired,
    /// The packet is longer than this MTU, host byte order.
    TooLong(u16),
}

impl IcmpError {
    /// Turns the packet into the error about it, to its sender, from the address that it was sent
    /// to. `Err` leaves a packet that must be dropped.
    #[inline(always)]
    pub(crate) fn replace<F: Rewrite>(
        self,
        context: &impl Access,
        packet: &Packet<F>,
    ) -> Result<(), AccessError> {
        // The inner packet is the network and the transport header: what a client needs to find its
        // socket, and at least what the kernel cannot cut away, the place of a checksum that is
        // still to be filled in (`__bpf_skb_min_len` in net/core/filter.c).
        let end = packet.transport.get() + usize::from(packet.least_length);
        context.truncate(end as u32)?;
        let room = F::HEADER_LENGTH + size_of::<IcmpHeader>();
        context.insert_after_link(room as u32)?;
        let network = packet.network.get();
        let length = size_of::<IcmpHeader>() + end - network;
        let sum = context
            .at_mut::<F::Header>(network)?
            .set_icmp(length, &packet.tuple);
        self.write::<F>(context, network + F::HEADER_LENGTH, length, sum)
    }

    /// Writes the header of a message of `length` bytes at `offset`, whose checksum covers what was summed up to
    /// `sum` too.
    #[inline(always)]
    fn write<F: Rewrite>(
        self,
        context: &impl Access,
        offset: usize,
        length: usize,
        mut sum: Sum,
    ) -> Result<(), AccessError> {
        let ((kind, code), mtu) = match self {
            Self::PortUnreachable => (F::PORT_UNREACHABLE, 0),
            Self::Expired => (F::EXPIRED, 0),
            Self::TooLong(mtu) => (F::TOO_LONG, mtu),
        };
        *context.at_mut::<IcmpHeader>(offset)? = IcmpHeader {
            kind,
            code,
            checksum: 0,
            detail: u32::from(mtu).to_be(),
        };
        // Of a cut header the quote is as long as that: zeros are summed behind its last bytes. Before the
        // loop, behind which the verifier is to know nothing of the length.
        let rest = length % 4;
        if rest != 0 {
            let last = *context.at::<u32>(offset + ((length - 4) & LONGEST_MESSAGE))?;
            sum = sum.with((u32::from_le(last) >> (8 * (4 - rest))).to_le());
        }
        let longest = size_of::<IcmpHeader>() + F::LONGEST_HEADER + transport::LONGEST;
        for place in (0..longest).step_by(4) {
            if place + 4 > length {
                break;
            }
            sum = sum.with(*context.at::<u32>(offset + place)?);
        }
        context.at_mut::<IcmpHeader>(offset)?.checksum = sum.apply(!0);
        Ok(())
    }
}
