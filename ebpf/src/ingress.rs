//! Packets that come in: of a client to a frontend, so on to a backend; or of a backend to an
//! address that stands for a client's.

use aya_ebpf::programs::TcContext;
use aya_log_ebpf::debug;
use shunt_common::{Counter, Direction, Tuple};

use crate::{
    answer, conntrack,
    counters::{count, drop},
    exit,
    family::Family,
    open::open,
    packet::Packet,
    place,
    service::{self, Choice, Lookup},
    verdict::Verdict,
};

/// Sends a packet for a frontend to its connection's backend, and an answer on to its client;
/// passes every other packet untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext) -> Verdict {
    let Some(packet) = Packet::<F>::parse(context) else {
        return Verdict::Pass;
    };
    let (translated, as_what) = match answer::find(&packet) {
        Some(translated) => (translated, Counter::Reply),
        None => match translate(context, &packet) {
            Ok(translated) => (translated, Counter::Request),
            Err(verdict) => return verdict,
        },
    };
    exit::send(context, &packet, &translated, as_what)
}

/// The tuple with which a client's packet goes on to its backend; `Err` if it does not.
#[inline(always)]
fn translate<F: Family>(context: &TcContext, packet: &Packet<F>) -> Result<Tuple<F>, Verdict> {
    match conntrack::find(packet, Direction::Forward) {
        // A connection keeps its backend, whatever becomes of it. But a packet that may open
        // another, a UDP packet or a SYN, owes nothing to a backend that is gone or to a
        // connection that has ended: it picks again.
        Some(found)
            if !packet.may_open()
                || !found.ended && service::is_current::<F>(found.backend, found.generation) =>
        {
            return Ok(found.translated);
        }
        _ => {}
    }
    match service::select(packet) {
        Lookup::NotAFrontend => Err(Verdict::Pass),
        Lookup::Dropped(reason) => Err(drop(context, reason)),
        Lookup::Rejected => {
            Err(F::PORT_UNREACHABLE.answer(context, packet, Counter::RejectNoBackend))
        }
        Lookup::Backend(choice) => connect(packet, &choice)
            .map_err(|reason| drop(context, reason))
            .inspect(|_| {
                count(Counter::Connection);
                debug!(context, "connection to backend {}", choice.index);
            }),
    }
}

/// Opens a connection to the backend.
#[inline(always)]
fn connect<F: Family>(packet: &Packet<F>, choice: &Choice<F>) -> Result<Tuple<F>, Counter> {
    let source = place::source_for(packet.tuple.source, &choice.backend)?;
    open(packet, choice, source)
}
