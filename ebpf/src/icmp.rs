//! Telling a packet's sender why it goes no further: ICMP errors (RFC 792, RFC 4443).

use aya_ebpf::{
    bindings::bpf_adj_room_mode::BPF_ADJ_ROOM_MAC, helpers::bpf_skb_change_tail,
    programs::TcContext,
};
use shunt_common::{Counter, Sum};

use crate::{
    counters::{count, drop},
    family::Family,
    frame::{Unreadable, at, at_mut},
    limit,
    packet::Packet,
    transport,
    turn::turn_back,
    verdict::Verdict,
};

/// The header of an ICMP error, the same in both families; network order.
#[repr(C)]
pub struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    pub checksum: u16,
    /// The MTU of what is too long, else 0.
    pub detail: u32,
}

const _: () = assert!(size_of::<IcmpHeader>() == 8, "RFC 792, RFC 4443: two words");

/// What a packet's sender is told.
#[derive(Clone, Copy)]
pub enum IcmpError {
    /// Nobody listens at the port.
    PortUnreachable,
    /// The hop limit is used up.
    Expired,
    /// The packet is longer than this MTU, host byte order.
    TooLong(u16),
}

impl IcmpError {
    /// Sends the error in answer to the packet, back where that came from, from the address that
    /// it was sent to. Counted as `reason`, also where nobody may be told; or as dropped where it
    /// cannot be.
    #[inline(always)]
    pub fn answer<F: Family>(
        self,
        context: &TcContext,
        packet: &Packet<F>,
        reason: Counter,
    ) -> Verdict {
        if !packet.may_be_answered() {
            return drop(context, reason);
        }
        // What path-MTU discovery needs is always sent.
        if !matches!(self, Self::TooLong(_)) && !limit::allows_rejection() {
            return drop(context, Counter::DropRejectRate);
        }
        if self.replace(context, packet).is_err() {
            return drop(context, Counter::DropRewrite);
        }
        count(reason);
        Verdict::REDIRECT
    }

    /// Turns the packet into the error. `Err` leaves a packet that must be dropped.
    #[inline(always)]
    fn replace<F: Family>(self, context: &TcContext, packet: &Packet<F>) -> Result<(), Unreadable> {
        // The network and the transport header are quoted: what a client needs to find its socket,
        // and at least what the kernel cannot cut away, the place of a checksum that is still to
        // be filled in (`__bpf_skb_min_len` in net/core/filter.c).
        let end = packet.transport.get() + usize::from(packet.least_length);
        // SAFETY: the context is the kernel's.
        let cut = unsafe { bpf_skb_change_tail(context.skb.skb, end as u32, 0) };
        if cut != 0 {
            return Err(Unreadable::Foreign);
        }
        let room = F::HEADER_LENGTH + size_of::<IcmpHeader>();
        context
            .adjust_room(room as i32, BPF_ADJ_ROOM_MAC, 0)
            .map_err(|_| Unreadable::Foreign)?;
        let network = packet.network.get();
        let length = size_of::<IcmpHeader>() + end - network;
        let sum = F::write_before_icmp(context, network, length, &packet.tuple)?;
        self.write::<F>(context, network + F::HEADER_LENGTH, length, sum)?;
        turn_back(context, packet.link)
    }

    /// Writes the header of a message of `length` bytes, a multiple of 4, at `offset`, whose
    /// checksum covers what was summed up to `sum` too.
    #[inline(always)]
    fn write<F: Family>(
        self,
        context: &TcContext,
        offset: usize,
        length: usize,
        mut sum: Sum,
    ) -> Result<(), Unreadable> {
        let ((kind, code), mtu) = match self {
            Self::PortUnreachable => (F::PORT_UNREACHABLE, 0),
            Self::Expired => (F::EXPIRED, 0),
            Self::TooLong(mtu) => (F::TOO_LONG, mtu),
        };
        *at_mut::<IcmpHeader>(context, offset)? = IcmpHeader {
            kind,
            code,
            checksum: 0,
            detail: u32::from(mtu).to_be(),
        };
        let longest = size_of::<IcmpHeader>() + F::LONGEST_HEADER + transport::LONGEST;
        for place in (0..longest).step_by(4) {
            if place >= length {
                break;
            }
            sum = sum.with(*at::<u32>(context, offset + place)?);
        }
        at_mut::<IcmpHeader>(context, offset)?.checksum = sum.apply(!0);
        Ok(())
    }
}
