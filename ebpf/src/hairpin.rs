//! Hairpin: a pod that reaches itself through its service.
//!
//! The pod would not take a packet from its own address, so the source becomes an address that is
//! nobody's, and the pod's answer to it comes back to us. Neither packet may see the stack: it
//! would judge both by routes that do not exist (`rp_filter`). They go back out of the interface
//! that they came in by.

use aya_ebpf::{
    bindings::TC_ACT_REDIRECT, cty::c_long, helpers::bpf_redirect, programs::TcContext,
};
use shunt_common::{Counter, Direction};

use crate::{
    conntrack,
    counters::count,
    family::Family,
    frame::{Unreadable, at_mut},
    packet::Packet,
    rewrite::rewrite,
    verdict::Verdict,
};

/// The addresses of an Ethernet header.
#[repr(C)]
struct EthernetAddresses {
    destination: [u8; 6],
    source: [u8; 6],
}

/// Whether the packet answers one that [`bounce`] sent.
#[inline(always)]
pub fn is_answer<F: Family>(packet: &Packet<F>) -> bool {
    packet.tuple.destination == F::hairpin_ip()
}

/// Restores the answer of a pod to itself; passes what answers nothing.
#[inline(always)]
pub fn answer<F: Family>(context: &TcContext, packet: &Packet<F>) -> Verdict {
    let Some(found) = conntrack::find(packet, Direction::Reply) else {
        return Verdict::Pass;
    };
    if rewrite(context, packet, &found.translated).is_err() || bounce(context).is_err() {
        count(Counter::DropRewrite);
        return Verdict::Drop;
    }
    count(Counter::Reply);
    Verdict::Redirect
}

/// Sends the packet back where it came from.
#[inline(always)]
pub fn bounce(context: &TcContext) -> Result<(), Unreadable> {
    let ethernet = at_mut::<EthernetAddresses>(context, 0)?;
    core::mem::swap(&mut ethernet.destination, &mut ethernet.source);
    // SAFETY: the context is the kernel's; the helper takes any interface index.
    let redirected = unsafe { bpf_redirect((*context.skb.skb).ifindex, 0) };
    if redirected == c_long::from(TC_ACT_REDIRECT) {
        Ok(())
    } else {
        Err(Unreadable::Foreign)
    }
}
