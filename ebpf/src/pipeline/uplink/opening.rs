//! Packets of no connection that we know, and that may begin one: to a backend elsewhere they go on from here,
//! and no other program sees those that are dropped or rejected.

use shunt_common::{Backend, Cell, Counter, FrontendKey, TCP, Tuple, UDP};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        admission::check_source,
        fib::Routed,
        icmp_error::send_error,
        next_hop::{self, Origin, WayIndex},
    },
    lb::{
        draw::{self, Draw},
        frontend::{self, Lookup},
        maglev::Maglev,
        sender::Sender,
    },
    maps::{
        addresses::is_of_pod,
        backends::Choice,
        counters::count,
        dsr::{may_wrap, note_tracked},
        paths,
        scratch::Arrival,
        services::{count_opened, count_translated, drop_refused},
        tables::UPLINKS,
    },
    nat::{
        create::{create_from, keeps_source},
        open::{Open, Opener, Source},
    },
    packet::{
        family::Header as _,
        link::{EthernetAddresses, Link, Station},
        log::Direction,
        offset::Offset,
        parsed::{Form, Packet},
        segment::{TcpHeader, UdpHeader},
    },
    pipeline::headers::{Headers, headers, protocol},
    rewrite::{
        icmp_error::IcmpError,
        network::decrement_hop_limit,
        transport::{SegmentMut, rewrite_segment},
    },
};

/// Outcome of a packet of no connection that we know.
#[derive(Clone, Copy)]
pub(crate) enum Fate {
    Verdict(Verdict),
    /// It opens one to the backend of this index, and goes this way.
    Opens(u32, WayIndex),
}

impl Fate {
    /// As a BPF subprogram returns it.
    #[inline(always)]
    pub(crate) fn to_value(self) -> u64 {
        match self {
            Self::Verdict(verdict) => u64::from(Verdict::to_value(Some(verdict)).cast_unsigned()),
            Self::Opens(backend, way) => u64::from(backend) | u64::from(way.number() + 1) << 32,
        }
    }

    /// Reads the value that a BPF subprogram has returned.
    #[inline(always)]
    pub(crate) fn from_value(value: u64) -> Self {
        let low = value as u32;
        match (value >> 32) as u32 {
            0 => {
                let verdict = Verdict::from_value(low.cast_signed());
                Self::Verdict(verdict.unwrap_or(Verdict::PASS))
            }
            way => Self::Opens(low, WayIndex::of_number(way - 1)),
        }
    }
}

/// Reads the packet into this CPU's arrival and decides about it. If it goes on, its addresses on the
/// way to the backend are there too.
#[inline(always)]
pub(crate) fn judge<F: Routed + Open + Draw + Maglev>(context: &impl Access) -> Fate {
    let passes = Fate::Verdict(Verdict::PASS);
    let protocol = protocol::<F>(context, Link::Ethernet);
    let Some(Arrival { packet, translated }) = arrival::<F>() else {
        return passes;
    };
    *packet = Packet::none();
    let is_read = match protocol {
        Some(TCP) => read::<F, TcpHeader>(context, TCP, packet),
        Some(UDP) => read::<F, UdpHeader>(context, UDP, packet),
        _ => false,
    };
    if !is_read || !is_for_us(context) {
        return passes;
    }
    packet.direction = Direction::Original;
    let key = FrontendKey::new(
        packet.tuple.destination,
        packet.tuple.destination_port,
        packet.protocol,
    );
    let sender = Sender::<F> {
        address: packet.tuple.source,
        interface: packet.interface,
        is_for_own: false,
    };
    let Some(cell) = frontend::find_for(key, &packet.service) else {
        return passes;
    };
    // What comes here although its frontend is in mode dsr was not sent on in an envelope. Where nothing is,
    // the TC program serves it.
    if !packet.may_be_first || cell.has(Cell::DSR) && !may_wrap() {
        return passes;
    }
    draw::prepare(packet);
    match frontend::select_in(key, cell, &sender) {
        Lookup::NotAFrontend => passes,
        Lookup::Dropped(reason) => Fate::Verdict(drop_refused(context, packet, reason)),
        Lookup::Rejected => Fate::Verdict(match check_source(context, packet) {
            Ok(()) => send_error(
                IcmpError::PortUnreachable,
                context,
                packet,
                Counter::RejectNoBackend,
            ),
            Err(verdict) => verdict,
        }),
        Lookup::Backend(choice, cell) => route(context, packet, &choice, cell, translated),
    }
}

/// Finds out whether the packet goes on from here to the chosen backend of the frontend with this
/// cell, and by which way.
#[inline(always)]
fn route<F: Routed + Open>(
    context: &impl Access,
    packet: &Packet<F>,
    choice: &Choice<F>,
    cell: Cell,
    translated: &mut Tuple<F>,
) -> Fate {
    let passes = Fate::Verdict(Verdict::PASS);
    let Choice { backend, index } = choice;
    if backend.flags & Backend::<F>::LOCAL != 0
        || is_of_pod::<F>(&backend.address)
        || backend.address == packet.tuple.source
        || keeps_source(packet, cell, backend)
    {
        return passes;
    }
    if let Err(verdict) = check_source(context, packet) {
        return Fate::Verdict(verdict);
    }
    let Some(source) = paths::source_to::<F>(&backend.address) else {
        return passes;
    };
    translated.source = source;
    translated.destination = backend.address;
    let origin = Origin {
        came: &packet.tuple,
        is_proven: false,
    };
    let Some(way) = next_hop::find(context, packet.extent(), &origin, translated) else {
        return passes;
    };
    if cell.has(Cell::DSR) {
        note_tracked();
    }
    Fate::Opens(*index, way)
}

/// Opens the connection of the packet that was read to the backend of this index, and sends the packet
/// there by this way.
#[inline(always)]
pub(crate) fn open<F: Routed + Open>(
    context: &impl Access,
    backend: u32,
    way: WayIndex,
) -> Verdict {
    let (Some(Arrival { packet, translated }), Some(choice)) =
        (arrival::<F>(), Choice::<F>::at(backend))
    else {
        return Verdict::PASS;
    };
    let source = translated.source;
    match create_from(packet, &choice, &source, Source::<F>::NO_PORT, translated) {
        Ok(Opener::This) => {}
        // The way is that of our choice, which does not count.
        Ok(Opener::Other) => return Verdict::PASS,
        Err(reason) => return drop_refused(context, packet, reason),
    }
    F::log_opened(&packet.tuple, choice.backend);
    count(Counter::Connection);
    count_opened(packet.service.get());
    let rewritten = match packet.protocol {
        TCP => rewrite_segment::<F, TcpHeader>(context, packet, translated),
        _ => rewrite_segment::<F, UdpHeader>(context, packet, translated),
    };
    let sent = rewritten
        .and_then(|()| decrement_hop_limit::<F>(context, packet.network.get()))
        .and_then(|()| way.take::<F>(context));
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    count_translated(packet, Counter::Request);
    verdict
}

#[inline(always)]
pub(crate) fn arrival<F: Routed>() -> Option<&'static mut Arrival<F>> {
    // Always there: the table has an entry for each CPU.
    let arrival = F::arrivals().get_ptr_mut(0)?;
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    Some(unsafe { &mut *arrival })
}

/// Reads a packet whose transport header is a `T` into `packet`. Returns whether it is all there and may begin
/// a connection.
#[inline(always)]
fn read<F: Routed, T: SegmentMut>(
    context: &impl Access,
    protocol: u8,
    packet: &mut Packet<F>,
) -> bool {
    let begin = Link::Ethernet.header_length();
    let offset = begin + F::HEADER_LENGTH;
    let Some(Headers { network, transport }) = headers::<F, T>(context, Link::Ethernet) else {
        return false;
    };
    // The TC program drops it.
    if !network.is_intact() {
        return false;
    }
    packet.tuple.source = network.source();
    packet.tuple.destination = network.destination();
    packet.tuple.source_port = transport.ports().source;
    packet.tuple.destination_port = transport.ports().destination;
    packet.signal = transport.signal(|| 0);
    // It begins nothing, whatever else it carries: the TC program knows what becomes of it.
    if packet.signal.only_answers() {
        return false;
    }
    packet.end = (begin + network.packet_length()) as u32;
    packet.interface = context.interface();
    packet.network = Offset::new(begin);
    packet.transport = Offset::new(offset);
    packet.payload = Offset::new(offset + transport.length());
    packet.least_length = size_of::<T>() as u16;
    packet.link = Link::Ethernet;
    packet.form = Form::Whole;
    packet.protocol = protocol;
    packet.may_be_first = transport.may_be_first();
    packet.is_intact = true;
    true
}

/// Returns whether the frame is for this interface's own address, or for several stations.
#[inline(always)]
fn is_for_us(context: &impl Access) -> bool {
    // SAFETY: an entry is replaced whole.
    let Some(uplink) = (unsafe { UPLINKS.get(context.interface()) }) else {
        return false;
    };
    let station = Station::at(uplink.address);
    context.is_for_group()
        || context
            .at::<EthernetAddresses>(0)
            .is_ok_and(|link| link.is_for(&station))
}
