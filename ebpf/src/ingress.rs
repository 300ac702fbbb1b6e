//! Packets that come in: of a client to a frontend, so on to a backend; or of a backend to an
//! address that stands for a client's, or, with `--redirect`, to any client.

use aya_ebpf::programs::TcContext;
use aya_log_ebpf::debug;
use shunt_common::{Counter, Direction, Hook, Tuple};

use crate::{
    answer, config,
    conntrack::{self, Found},
    counters::{count, drop},
    exit,
    family::Family,
    fragments,
    icmp::IcmpError,
    open::open,
    packet::{Form, Link, Packet},
    place,
    service::{self, Choice, Lookup},
    verdict::Verdict,
};

/// A packet that came in, and the tuple that it goes on with. In a table: on the stack, programs and
/// their functions would have more than the 512 bytes that they are allowed, of which kernels
/// before 6.8 give each function a multiple of 32.
#[repr(C)]
pub struct Arrival<F: shunt_common::Family> {
    packet: Packet<F>,
    translated: Tuple<F>,
}

/// Sends a packet for a frontend to its connection's backend, and an answer on to its client;
/// passes every other packet untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext, link: Link) -> Verdict {
    if let Some(verdict) = F::fast_path(context, link, Hook::Ingress) {
        return verdict;
    }
    // Always there: the table has an entry for each CPU.
    let Some(arrival) = F::arrivals().get_ptr_mut(0) else {
        return Verdict::PASS;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let Arrival { packet, translated } = unsafe { &mut *arrival };
    *packet = Packet::none();
    if !packet.parse(context, link) {
        return Verdict::PASS;
    }
    match find(context, packet, translated) {
        Ok(as_what) => exit::send(context, packet, translated, packet.counts_as(as_what)),
        Err(verdict) => verdict,
    }
}

/// Puts the tuple with which the packet goes on into `translated`, and gives what it is if it is a
/// connection's own; `Err` if it does not go on as another.
#[inline(always)]
fn find<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) -> Result<Counter, Verdict> {
    if packet.form == Form::LaterFragment {
        if fragments::recall(packet, Hook::Ingress, translated) {
            return Ok(Counter::Fragment);
        }
        count(Counter::PassFragment);
        return Err(Verdict::PASS);
    }
    if answer::find(packet, translated) {
        return Ok(Counter::Reply);
    }
    if config::redirects()
        && let Some(found) = conntrack::find(packet, Direction::Reply)
    {
        *translated = found.entry.translated;
        return Ok(Counter::Reply);
    }
    translate(context, packet, translated)?;
    Ok(Counter::Request)
}

/// Puts the tuple with which a client's packet goes on to its backend into `translated`; `Err` if
/// it does not.
#[inline(always)]
fn translate<F: Family>(
    context: &TcContext,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) -> Result<(), Verdict> {
    // A connection keeps its backend, whatever becomes of it. But a packet that may open another,
    // a UDP packet or a SYN, owes nothing to a backend that is gone or to a connection that has
    // ended: it picks again.
    if let Some(Found { entry, ended }) = conntrack::find(packet, Direction::Forward)
        && (!packet.opens || !ended && service::is_current::<F>(entry.backend, entry.generation))
    {
        *translated = entry.translated;
        return Ok(());
    }
    if packet.is_error() || is_overheard(context, packet) {
        return Err(Verdict::PASS);
    }
    match service::select(packet) {
        Lookup::NotAFrontend => Err(Verdict::PASS),
        Lookup::Dropped(reason) => Err(drop(context, reason)),
        Lookup::Rejected => {
            Err(IcmpError::PortUnreachable.answer(context, packet, Counter::RejectNoBackend))
        }
        Lookup::Backend(choice) => connect(packet, &choice, translated)
            .map_err(|reason| drop(context, reason))
            .inspect(|_| {
                count(Counter::Connection);
                debug!(context, "connection to backend {}", choice.index);
            }),
    }
}

/// Whether the packet only reached us because the interface listens to all of its link: its frame
/// was for another station, which translates it, and its sender is no pod behind a bridge of ours.
#[inline(always)]
fn is_overheard<F: Family>(context: &TcContext, packet: &Packet<F>) -> bool {
    // SAFETY: the context is the kernel's.
    let kind = unsafe { (*context.skb.skb).pkt_type };
    kind == PACKET_OTHERHOST && !place::is_here::<F>(&packet.tuple.source)
}

/// `PACKET_OTHERHOST` of `linux/if_packet.h`.
const PACKET_OTHERHOST: u32 = 3;

/// Opens a connection to the backend.
#[inline(always)]
fn connect<F: Family>(
    packet: &Packet<F>,
    choice: &Choice<F>,
    translated: &mut Tuple<F>,
) -> Result<(), Counter> {
    let source = place::source_for(packet.tuple.source, choice.backend)?;
    open(packet, choice, source, translated)
}
