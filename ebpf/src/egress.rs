//! Packets that go to a client: from a backend, so back to the frontend's address.

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, Direction, Hook};

use crate::{
    conntrack,
    counters::{count, drop},
    family::Family,
    fragments,
    packet::{Form, Link, Packet},
    rewrite::rewrite,
    verdict::Verdict,
};

/// Gives a reply of a translated connection its frontend's address; passes every other packet
/// untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext, link: Link) -> Verdict {
    if let Some(verdict) = F::fast_path(context, link, Hook::Egress) {
        return verdict;
    }
    let mut packet = Packet::<F>::none();
    if !packet.parse(context, link) {
        return Verdict::PASS;
    }
    let packet = &packet;
    let mut translated = bytemuck::Zeroable::zeroed();
    let is_known = match packet.form {
        Form::LaterFragment => fragments::recall(packet, Hook::Egress, &mut translated),
        _ => conntrack::find(packet, Direction::Reply)
            .map(|found| translated = found.entry.translated)
            .is_some(),
    };
    if !is_known {
        return Verdict::PASS;
    }
    fragments::remember(packet, Hook::Egress, &translated);
    if rewrite(context, packet, &translated).is_err() {
        return drop(context, Counter::DropRewrite);
    }
    count(packet.counts_as(Counter::Reply));
    Verdict::PASS
}
