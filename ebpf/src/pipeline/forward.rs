//! Way of a translated packet.
//!
//! | connection | way |
//! |---|---|
//! | source kept | through the stack, which sees one consistent connection |
//! | to a pod of this node, with `--redirect` | straight to the pod's device |
//! | hairpin | back out of the interface that it came in by: the stack would judge both directions by routes that do not exist (`rp_filter`) |
//! | SNAT | straight to the next hop: the stack would see halves of two connections |
//! | SNAT, and the packet needs what only the stack can do | through the stack, half translated |

use shunt_common::{Counter, FlowKind, Hook, Tuple};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        admission::check_hops,
        hairpin::send_back,
        icmp_error::send_error,
        own,
        redirect::{self, HopIndex},
        stack,
        transit::{self, NoRoute, Route},
    },
    maps::{
        addresses::is_screened,
        counters::count,
        flows::tell_packet,
        services::{count_translated, drop_refused},
    },
    nat::{conntrack, fragments, wanted::Wanted},
    packet::{
        log::Direction,
        parsed::{Form, Packet},
    },
    pipeline::{dsr, program::Program},
    rewrite::network::decrement_hop_limit,
};

/// Way of a packet after its program.
enum Way {
    Stack,
    Hairpin,
    Redirect(HopIndex),
    Transit(Route),
}

/// Gives the packet the tuple `translated` and sends it on, counted as `usually` if it is a
/// connection's own.
#[inline(always)]
pub(crate) fn forward<F: Program<C>, C: Access>(
    context: &C,
    packet: &Packet<F>,
    translated: &mut Tuple<F>,
    mut usually: Counter,
) -> Verdict {
    let hairpin = F::hairpin_ip();
    let keeps_source = translated.source == packet.tuple.source;
    let way = if !keeps_source
        && (translated.source == hairpin || packet.tuple.destination == hairpin)
    {
        if let Err(verdict) = check_hops(context, packet) {
            return verdict;
        }
        Way::Hairpin
    } else if let Some(hop) = redirect::find(
        context,
        packet.link,
        packet.extent(),
        &packet.tuple,
        translated,
        packet.may_be_first,
    ) {
        Way::Redirect(hop)
    } else if keeps_source {
        // Of a connection to the backend itself. The hook where it goes out translates it, and would do so twice.
        if usually == Counter::Reply
            && translated.destination == packet.tuple.destination
            && !conntrack::find(packet, Wanted::Reply)
                .is_some_and(|half| conntrack::ends_here::<F>(half, &packet.tuple.destination))
        {
            return Verdict::PASS;
        }
        Way::Stack
    } else if translated.destination == packet.tuple.destination && is_screened(context.interface())
    {
        // The programs after ours see a pod's reply. It is translated where it leaves.
        return Verdict::PASS;
    } else {
        match transit::find(context, packet, translated) {
            Ok(route) => Way::Transit(route),
            // The stack sends a reply as well, which is translated behind it.
            Err(_) if translated.destination == packet.tuple.destination => return Verdict::PASS,
            Err(NoRoute::Stack) => {
                stack::hand_over(context, packet, translated);
                count(Counter::ThroughStack);
                Way::Stack
            }
            Err(NoRoute::StackTells) => {
                let service = packet.service.get();
                tell_packet(context, FlowKind::DROPPED, service, Counter::DropNoRoute);
                stack::hand_over(context, packet, translated);
                usually = Counter::DropNoRoute;
                Way::Stack
            }
            Err(NoRoute::Told(error, reason)) => {
                return send_error(error, context, packet, reason);
            }
            Err(NoRoute::Dropped) => return drop_refused(context, packet, Counter::DropNoRoute),
        }
    };
    // What goes through the stack is judged there.
    let is_broken = !packet.is_intact && !matches!(way, Way::Stack);
    let mut reason = Counter::DropChecksum;
    if !is_broken {
        reason = Counter::DropRewrite;
        fragments::remember(packet, Hook::Ingress, translated);
    }
    if is_broken
        || F::rewrite(context, packet, translated).is_err()
        || dsr::adapt(context, packet, translated).is_err()
    {
        return drop_refused(context, packet, reason);
    }
    if usually == Counter::Reply && matches!(way, Way::Hairpin | Way::Redirect(_)) {
        own::mark(context);
    } else if keeps_source && packet.direction == Direction::Original {
        own::mark_request(context);
    }
    let sent = match way {
        Way::Stack => Ok(Verdict::PASS),
        Way::Hairpin => decrement_hop_limit::<F>(context, packet.network.get())
            .and_then(|()| send_back(context, packet.link)),
        Way::Redirect(hop) => hop.take::<F>(context, packet.network.get()),
        Way::Transit(route) => route.take(context, packet),
    };
    let Ok(verdict) = sent else {
        return drop_refused(context, packet, Counter::DropRewrite);
    };
    count_translated(packet, counter_of(packet.form, usually));
    verdict
}

/// Returns the counter of a packet that is translated: `usually` if it is a connection's own.
#[inline(always)]
pub(crate) const fn counter_of(form: Form, usually: Counter) -> Counter {
    match form {
        Form::Whole | Form::FirstFragment => usually,
        Form::LaterFragment => Counter::Fragment,
        Form::Error => Counter::IcmpError,
    }
}
