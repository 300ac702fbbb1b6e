//! Packets that go to a client: from a backend, so back to the frontend's address.

use aya_ebpf::programs::TcContext;
use shunt_common::{Counter, Direction};

use crate::{
    conntrack,
    counters::{count, drop},
    family::Family,
    packet::Packet,
    rewrite::rewrite,
    verdict::Verdict,
};

/// Gives a reply of a translated connection its frontend's address; passes every other packet
/// untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext) -> Verdict {
    let Some(packet) = Packet::<F>::parse(context) else {
        return Verdict::Pass;
    };
    let Some(found) = conntrack::find(&packet, Direction::Reply) else {
        return Verdict::Pass;
    };
    if rewrite(context, &packet, &found.translated).is_err() {
        return drop(context, Counter::DropRewrite);
    }
    count(Counter::Reply);
    Verdict::Pass
}
