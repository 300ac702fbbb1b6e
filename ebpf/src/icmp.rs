//! Telling a packet's sender why it goes no further: ICMP errors (RFC 792, RFC 4443).

use aya_ebpf::{
    bindings::bpf_adj_room_mode::BPF_ADJ_ROOM_MAC, helpers::bpf_skb_change_tail,
    programs::TcContext,
};
use shunt_common::Counter;

use crate::{
    counters::{count, drop},
    family::Family,
    frame::Unreadable,
    limit,
    packet::Packet,
    turn::turn_back,
    verdict::Verdict,
};

/// The header of an ICMP error, the same in both families; network order.
#[repr(C)]
pub struct IcmpHeader {
    pub kind: u8,
    pub code: u8,
    pub checksum: u16,
    pub detail: u32,
}

const _: () = assert!(size_of::<IcmpHeader>() == 8, "RFC 792, RFC 4443: two words");

/// What the header of an ICMP error says.
#[derive(Clone, Copy)]
pub struct IcmpError {
    pub kind: u8,
    pub code: u8,
    /// The second word, network order: the MTU of what is too long, else 0.
    pub detail: u32,
    /// Whether it counts as a rejection, of which only so many are sent; what path-MTU discovery
    /// needs does not.
    pub is_rejection: bool,
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
        if self.is_rejection && !limit::allows_rejection() {
            return drop(context, Counter::DropRejectRate);
        }
        if self.replace(context, packet).is_err() {
            return drop(context, Counter::DropRewrite);
        }
        count(reason);
        Verdict::Redirect
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
        context
            .adjust_room(F::ICMP_LENGTH as i32, BPF_ADJ_ROOM_MAC, 0)
            .map_err(|_| Unreadable::Foreign)?;
        let network = packet.network.get();
        F::write_icmp(context, network, end - network, &packet.tuple, self)?;
        turn_back(context, packet.link)
    }
}
