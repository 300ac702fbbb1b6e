//! Packets that come from a client: to a frontend, so on to a backend.

use aya_ebpf::programs::TcContext;
use aya_log_ebpf::debug;
use shunt_common::{Counter, Direction};

use crate::{
    conntrack,
    counters::count,
    family::Family,
    hairpin,
    packet::Packet,
    reject::reject,
    rewrite::rewrite,
    service::{self, Lookup},
    turn::turn_back,
    verdict::Verdict,
};

/// Sends a packet for a frontend to its connection's backend; passes every other one untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext) -> Verdict {
    let Some(packet) = Packet::<F>::parse(context) else {
        return Verdict::Pass;
    };
    if hairpin::is_answer(&packet) {
        return hairpin::answer(context, &packet);
    }
    let translated = match conntrack::find(&packet, Direction::Forward) {
        // A connection keeps its backend, whatever becomes of it. But a packet that may open
        // another, a UDP packet or a SYN, owes nothing to a backend that is gone or to a
        // connection that has ended: it picks again.
        Some(found)
            if !packet.may_open()
                || !found.ended && service::is_current::<F>(found.backend, found.generation) =>
        {
            found.translated
        }
        _ => match service::select(&packet) {
            Lookup::NotAFrontend => return Verdict::Pass,
            Lookup::Dropped(reason) => return drop(context, reason),
            Lookup::Rejected => {
                if reject(context, &packet).is_err() {
                    return drop(context, Counter::DropNoBackend);
                }
                count(Counter::RejectNoBackend);
                return Verdict::Redirect;
            }
            Lookup::Backend(choice) => {
                let Ok(translated) = conntrack::open(&packet, &choice) else {
                    return drop(context, Counter::DropConntrackFull);
                };
                count(Counter::Connection);
                debug!(context, "connection to backend {}", choice.index);
                translated
            }
        },
    };
    if rewrite(context, &packet, &translated).is_err() {
        return drop(context, Counter::DropRewrite);
    }
    count(Counter::Request);
    if translated.source == packet.tuple.source {
        return Verdict::Pass;
    }
    match turn_back(context) {
        Ok(()) => Verdict::Redirect,
        Err(_) => drop(context, Counter::DropRewrite),
    }
}

#[inline(always)]
fn drop(context: &TcContext, reason: Counter) -> Verdict {
    count(reason);
    debug!(context, "dropped: {}", reason.name());
    Verdict::Drop
}
