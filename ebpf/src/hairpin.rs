//! Hairpin: a pod that reaches itself through its service.
//!
//! The pod would not take a packet from its own address, so the source becomes an address that is
//! nobody's, and the pod's answer to it comes back to us. Neither packet may see the stack: it
//! would judge both by routes that do not exist (`rp_filter`). They go back out of the interface
//! that they came in by.

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, Direction};

use crate::{
    conntrack, counters::count, family::Family, packet::Packet, rewrite::rewrite, turn::turn_back,
    verdict::Verdict,
};

/// Whether the packet answers one that a pod sent to itself.
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
    if rewrite(context, packet, &found.translated).is_err() || turn_back(context).is_err() {
        count(Counter::DropRewrite);
        return Verdict::Drop;
    }
    count(Counter::Reply);
    Verdict::Redirect
}
