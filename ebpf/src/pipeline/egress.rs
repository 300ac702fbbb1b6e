//! Packets that go out: to a client from a backend, so back to the frontend's address; out of
//! the stack, which was given them half translated; or of the host itself, from a port that a connection
//! of ours or a frontend has.

use shunt_common::{Counter, FrontendKey, Hook, Tuple};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{own, stack},
    lb::frontend,
    maps::{
        counters::{count, drop_packet},
        scratch::Arrival,
        services::{count_translated, drop_refused},
        variables::has_rules,
    },
    nat::{
        fragments,
        masquerade::{self, Origin},
        own_flow,
        reverse::{self, Reply},
    },
    packet::{
        link::Link,
        log::Direction,
        parsed::{Form, Packet},
    },
    pipeline::{dsr, forward::counter_of, leaving::Leave, program::Program},
};

/// Gives a reply of a translated connection its frontend's address, and a packet of the host's a source of its
/// own; passes every other packet untouched.
#[inline(always)]
pub(crate) fn handle<F: Program<C>, C: Access>(context: &C, link: Link) -> Verdict {
    // Always there: the table has an entry for each CPU.
    let Some(arrival) = F::arrivals().get_ptr_mut(0) else {
        return Verdict::PASS;
    };
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    let Arrival { packet, translated } = unsafe { &mut *arrival };
    *packet = Packet::none();
    if own::is_direct_reply(context) || !F::parse(context, link, packet) {
        return Verdict::PASS;
    }
    // What comes out of the stack half translated may go either way.
    packet.direction = Direction::Unknown;
    let mut usually = Counter::Reply;
    let is_known = match packet.form {
        Form::LaterFragment => fragments::recall(packet, Hook::Egress, translated),
        _ if stack::take_back(context, packet, translated) => true,
        _ => match reverse::at_egress(packet, translated) {
            Reply::Unwanted => return drop_packet(context, Counter::DropGone),
            reply => reply == Reply::Translated,
        },
    };
    if !is_known {
        if packet.form == Form::LaterFragment
            || own::is_marked(context)
            || !is_of_host(context, packet, translated)
        {
            return Verdict::PASS;
        }
        own::mark(context);
        if *translated == packet.tuple {
            return Verdict::PASS;
        }
        usually = Counter::Request;
    } else if !stack::is_halfway(context) {
        let keeps_source = translated.source == packet.tuple.source
            && translated.source_port == packet.tuple.source_port;
        if keeps_source {
            own::mark_direct_reply(context);
        } else {
            own::mark(context);
        }
    }
    // One of the host's own keeps its address.
    let leave = if translated.source != packet.tuple.source && has_rules::<F>() {
        F::leave(context, packet, translated)
    } else {
        Leave::Here
    };
    if let Leave::Over(verdict) = leave {
        return verdict;
    }
    fragments::remember(packet, Hook::Egress, translated);
    if F::rewrite(context, packet, translated).is_err()
        || dsr::adapt(context, packet, translated).is_err()
    {
        return drop_refused(context, packet, Counter::DropRewrite);
    }
    let sent = match leave {
        Leave::Elsewhere(index) => index.take::<F>(context, packet.link),
        _ => Ok(Verdict::PASS),
    };
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    if verdict != Verdict::PASS {
        count(Counter::Rerouted);
    }
    count_translated(packet, counter_of(packet.form, usually));
    verdict
}

/// Puts the tuple with which a packet of the host's own goes out into `translated`, if it is of a connection that
/// is remembered: its source is one of a connection of ours, or a frontend's.
#[inline(always)]
fn is_of_host<F: Program<C>, C: Access>(
    context: &C,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
) -> bool {
    let Tuple {
        source,
        source_port,
        ..
    } = packet.tuple;
    let may_clash = masquerade::may_clash::<F>(&source, source_port);
    let is_frontend = own_flow::may_come_from_frontend::<F>(&source, source_port)
        && frontend::is_one::<F>(FrontendKey::new(source, source_port, packet.protocol));
    if !may_clash && !is_frontend {
        return false;
    }
    let origin = Origin {
        may_clash,
        is_frontend,
        is_socket: context.is_of_socket(source_port),
    };
    masquerade::at_egress(packet, origin, translated)
}
