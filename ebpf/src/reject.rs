//! Rejection: the client is told at once that nobody answers (ICMP destination unreachable, port
//! unreachable, RFC 792), which its socket reports as "connection refused".

use aya_ebpf::{
    bindings::bpf_adj_room_mode::BPF_ADJ_ROOM_MAC, helpers::bpf_skb_change_tail,
    programs::TcContext,
};
use shunt_common::TCP;

use crate::{
    family::Family,
    frame::Unreadable,
    packet::{NETWORK_OFFSET, Packet, TCP_LENGTH, UDP_LENGTH},
    turn::turn_back,
};

/// Turns the packet into its rejection and sends it back where it came from.
///
/// `Err` leaves a packet that must be dropped: one that is larger than a segment cannot be cut.
#[inline(always)]
pub fn reject<F: Family>(context: &TcContext, packet: &Packet<F>) -> Result<(), Unreadable> {
    // The network and the transport header are quoted: what a client needs to find its socket,
    // and at least what the kernel cannot cut away, the place of a checksum that is still to be
    // filled in (`__bpf_skb_min_len` in net/core/filter.c).
    let transport = if packet.protocol == TCP {
        TCP_LENGTH
    } else {
        UDP_LENGTH
    };
    let quoted = packet.transport - NETWORK_OFFSET + transport;
    // SAFETY: the context is the kernel's.
    let cut = unsafe { bpf_skb_change_tail(context.skb.skb, (NETWORK_OFFSET + quoted) as u32, 0) };
    if cut != 0 {
        return Err(Unreadable::Foreign);
    }
    context
        .adjust_room(F::UNREACHABLE_LENGTH as i32, BPF_ADJ_ROOM_MAC, 0)
        .map_err(|_| Unreadable::Foreign)?;
    F::write_unreachable(context, NETWORK_OFFSET, quoted, &packet.tuple)?;
    turn_back(context)
}
