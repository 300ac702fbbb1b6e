//! Packets that come in: of a client to a frontend, so on to a backend; or of a backend to an
//! address that stands for a client's, or, with `--redirect`, to any client.

use shunt_common::{Cell, Counter, FrontendKey, Hook, Tuple};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        admission::{check_hops, check_source},
        icmp_error::send_error,
        own,
    },
    lb::{
        draw,
        frontend::{self, Lookup},
        sender::Sender,
    },
    maps::{
        addresses::is_client_here,
        counters::{count, drop_packet},
        scratch::Arrival,
        services::{count_opened, drop_refused},
        tables::Tables,
    },
    nat::{
        conntrack,
        create::{create, create_direct, keeps_source},
        fragments, netfilter,
        open::Opener,
        reverse::{self, Reply},
        wanted::{Half, Wanted},
    },
    packet::{
        link::Link,
        log::Direction,
        parsed::{Form, Packet},
    },
    pipeline::{dsr, forward::forward, guard, opened::Opened, program::Program},
    rewrite::icmp_error::IcmpError,
};

/// Sends a packet for a frontend to its connection's backend, and a reply on to its client; passes
/// every other packet untouched.
#[inline(always)]
pub(crate) fn handle<F: Program<C>, C: Access>(context: &C, link: Link) -> Verdict {
    // Always there: the table has an entry for each CPU.
    let Some(arrival) = F::arrivals().get_ptr_mut(0) else {
        return Verdict::PASS;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let Arrival { packet, translated } = unsafe { &mut *arrival };
    *packet = Packet::none();
    if !F::parse(context, link, packet) {
        match parse_inside(context, link, packet) {
            Opened::Dropped => return Verdict::DROP,
            Opened::Not if guard::is_on() && F::read_foreign(context, link, packet) => {
                return F::guard(context, packet);
            }
            Opened::Not => return Verdict::PASS,
            _ => {}
        }
    }
    match translate(context, packet, translated) {
        Ok(usually) => forward(context, packet, translated, usually),
        Err(verdict) => verdict,
    }
}

/// Reads the packet inside an envelope for us, which is open then.
#[inline(always)]
fn parse_inside<F: Program<C>, C: Access>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> Opened {
    let opened = F::open_envelope(context, link, packet);
    if opened == Opened::Dropped {
        return opened;
    }
    if opened == Opened::Not || !F::parse(context, link, packet) {
        return Opened::Not;
    }
    packet.is_for_own = true;
    packet.is_for_other_node = opened.is_for_other_node();
    packet.is_handed_on = opened.is_handed_on();
    opened
}

/// Puts the tuple with which the packet goes on into `translated`, and returns what it is if it is a
/// connection's own; `Err` if it does not go on as another.
#[inline(always)]
fn translate<F: Program<C>, C: Access>(
    context: &C,
    packet: &mut Packet<F>,
    translated: &mut Tuple<F>,
) -> Result<Counter, Verdict> {
    if packet.form == Form::LaterFragment {
        if fragments::recall(packet, Hook::Ingress, translated) {
            if dsr::is_outer(translated) {
                return Err(F::dispatch(context, packet, Cell::default()).unwrap_or(Verdict::PASS));
            }
            return Ok(Counter::Fragment);
        }
        let verdict = nobodys(context, packet);
        if verdict == Verdict::PASS {
            count(Counter::PassFragment);
        }
        return Err(verdict);
    }
    match reverse::at_ingress(packet, translated) {
        Reply::None => {}
        Reply::Translated => {
            packet.direction = Direction::Reply;
            return Ok(Counter::Reply);
        }
        Reply::Own => {
            count(Counter::PassOwn);
            return Err(Verdict::PASS);
        }
        Reply::Unwanted => return Err(drop_packet(context, Counter::DropGone)),
    }
    packet.direction = Direction::Original;
    translate_request(context, packet, translated)?;
    Ok(Counter::Request)
}

/// Puts the tuple with which a client's packet goes on to its backend into `translated`; `Err` if
/// it does not.
#[inline(always)]
fn translate_request<F: Program<C>, C: Access>(
    context: &C,
    packet: &mut Packet<F>,
    translated: &mut Tuple<F>,
) -> Result<(), Verdict> {
    // A connection keeps its backend, whatever becomes of it. But a packet that may begin another,
    // a UDP packet or a SYN, owes nothing to a backend that is gone or to a connection that has
    // ended: it picks again.
    let known = conntrack::find(packet, Wanted::Forward);
    if is_translated::<F>(context, known) {
        return Err(Verdict::PASS);
    }
    if let Some(half) = known
        && !(packet.may_be_first && conntrack::is_replaced(packet, &half))
        && conntrack::follow(packet, half, translated)
    {
        return Ok(());
    }
    let key = FrontendKey::new(
        dsr::frontend_address(packet),
        packet.tuple.destination_port,
        packet.protocol,
    );
    let found = frontend::find_for(key, &packet.service);
    if is_overheard(context, packet) {
        return Err(Verdict::PASS);
    }
    // The first node knows none of these connections, and the backend's may have forgotten them.
    let cell = found.unwrap_or_default();
    let is_dsr = cell.has(Cell::DSR);
    // Before this node chooses itself, which makes it the packet's own.
    let is_taken_out = packet.is_for_own;
    if is_dsr
        && (!is_taken_out || dsr::may_be_of_draining(packet, cell))
        && !packet.signal.answers()
        && let Some(verdict) = F::dispatch(context, packet, cell)
    {
        // What follows this packet must not go on by the connection that had its tuple before.
        if let Some(replaced) = known {
            conntrack::forget::<F>(&replaced);
        }
        return Err(verdict);
    }
    if packet.is_error() || !is_dsr && known.is_none() && netfilter::may_know(packet) {
        return Err(Verdict::PASS);
    }
    let sender = Sender::<F> {
        address: packet.tuple.source,
        interface: packet.interface,
        is_for_own: packet.is_for_own,
    };
    draw::prepare(packet);
    // It is for the host or for a machine that has the address. No machine has a ClusterIP, and who sent an envelope
    // would send the packet here again.
    let is_unasked = found.is_some() && packet.signal.only_answers();
    let selected = match found {
        Some(_) if !packet.is_intact => Lookup::Dropped(Counter::DropChecksum),
        Some(cell) if is_unasked && (is_taken_out || cell.has(Cell::CLUSTER_IP)) => {
            Lookup::Dropped(Counter::DropAnswer)
        }
        Some(_) if is_unasked => Lookup::NotAFrontend,
        Some(_) if packet.is_refused => Lookup::Rejected,
        Some(cell) => frontend::select_in(key, cell, &sender),
        None => Lookup::NotAFrontend,
    };
    let opened = match selected {
        Lookup::NotAFrontend => {
            packet.service.set(0);
            let may_open = !is_unasked && packet.is_intact;
            let is_sent_on = may_open.then(|| own::is_request(context));
            let direct = is_sent_on
                .and_then(|sent_on| create_direct(packet, known.as_ref(), sent_on, translated));
            let Some(opener) = direct else {
                let verdict = nobodys(context, packet);
                if is_unasked && verdict == Verdict::PASS {
                    count(Counter::PassAnswer);
                }
                return Err(verdict);
            };
            Ok(opener)
        }
        Lookup::Dropped(reason) => return Err(drop_refused(context, packet, reason)),
        Lookup::Rejected => {
            check_source(context, packet)?;
            return Err(send_error(
                IcmpError::PortUnreachable,
                context,
                packet,
                Counter::RejectNoBackend,
            ));
        }
        Lookup::Backend(choice, cell) => {
            let cell = settled::<F, C>(context, choice.index, cell);
            // Before it takes a port: only these programs judge a packet that does not keep its source.
            if !keeps_source(packet, cell, choice.backend) {
                check_source(context, packet)?;
                check_hops(context, packet)?;
            }
            let created = create(packet, &choice, cell, known.as_ref(), translated);
            if created == Ok(Opener::This) {
                F::log_opened(&packet.tuple, choice.backend);
            }
            created
        }
    };
    match opened {
        Ok(Opener::This) => {
            count(Counter::Connection);
            count_opened(packet.service.get());
            Ok(())
        }
        Ok(Opener::Other) => Ok(()),
        Err(reason) => Err(drop_refused(context, packet, reason)),
    }
}

/// Returns the cell of connections to this backend, of the frontend with `cell`.
#[inline(always)]
fn settled<F: Program<C>, C: Access>(context: &C, backend: u32, cell: Cell) -> Cell {
    if cell.has(Cell::MASQUERADE) {
        F::settle(context, backend, cell)
    } else {
        cell
    }
}

/// Returns whether another hook has translated the packet: it is a service's, and its client has this connection to the
/// backend itself.
#[inline(always)]
fn is_translated<F: Tables>(context: &impl Access, known: Option<Half>) -> bool {
    known.is_some_and(|half| own::is_request(context) && conntrack::is_direct::<F>(&half))
}

/// Returns the verdict on a packet that is for no frontend and of no connection.
#[inline(always)]
fn nobodys<F: Program<C>, C: Access>(context: &C, packet: &Packet<F>) -> Verdict {
    if guard::is_on() {
        F::guard(context, packet)
    } else {
        Verdict::PASS
    }
}

/// Returns whether the packet only reached us because the interface listens to all of its link: its frame
/// was for another station, which translates it, and its sender is no pod behind a bridge of ours.
#[inline(always)]
fn is_overheard<F: Program<C>, C: Access>(context: &C, packet: &Packet<F>) -> bool {
    context.is_for_other_station() && !is_client_here::<F>(&packet.tuple.source, packet.interface)
}
