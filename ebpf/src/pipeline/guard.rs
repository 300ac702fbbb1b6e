//! The guard: packets for services' addresses that are for no frontend.
//!
//! | address | packet | outcome |
//! |---|---|---|
//! | a ClusterIP | another port or protocol | rejected |
//! | in a range of ClusterIPs, and no service's | any | dropped |
//! | an external or load balancer address | another port or protocol | dropped if its next hop is the router that it came from; else the stack's |
//! | a ClusterIP | an echo request | answered |
//! | an external or load balancer address | an echo request | answered if it would leave where it came in, and no machine there has the address; else the stack's |
//! | a node's | any | the stack's |

use shunt_common::Counter;

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        admission::check_source,
        fib::Routed,
        hairpin::send_back,
        icmp_error::{allows_rejection, may_be_told_about, send_error},
        loops::way_back,
    },
    maps::{
        addresses::is_client_here,
        counters::{count, drop_packet},
        guarded::{self, Filtered, Owner, answers_echo, guards, is_cluster_range},
    },
    packet::{
        family::Header as _,
        inner::IcmpHeader,
        link::Link,
        parsed::{Form, Packet},
    },
    rewrite::{echo, icmp_error::IcmpError},
};

/// Returns whether there is anything to look after.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    guards() || answers_echo()
}

/// Returns whether the packet may be for an address that is looked after, before more of it is read.
#[inline(always)]
pub(crate) fn may_concern<F: Routed>(context: &impl Access, link: Link) -> bool {
    let Ok(header) = context.at::<F::Header>(link.header_length()) else {
        return false;
    };
    let destination = header.destination();
    Filtered::of::<F>(&destination).is_guarded() || guards() && is_cluster_range::<F>(&destination)
}

/// Returns the verdict on a packet that is for no frontend and of no connection.
#[inline(always)]
pub(crate) fn judge<F: Routed>(context: &impl Access, packet: &Packet<F>) -> Verdict {
    // A key of its own: the packet is an argument of a global function, and Linux 6.1 takes no key from
    // there.
    let destination = packet.tuple.destination;
    let owner = guarded::owner_of::<F>(&destination);
    if owner == Owner::Other || is_overheard(context, packet) {
        return Verdict::PASS;
    }
    let is_ping = answers_echo() && is_echo(context, packet);
    if !is_ping && !guards() {
        return Verdict::PASS;
    }
    // A machine may have an external address, unless nothing gets any further.
    let way_back = match owner {
        Owner::External => way_back(context, packet),
        _ => None,
    };
    let is_lost = way_back.is_some_and(|way| !way.leads_to_machine());
    if is_ping && (owner == Owner::ClusterIp || is_lost) {
        return answer(context, packet);
    }
    if !guards() {
        return Verdict::PASS;
    }
    match owner {
        Owner::ClusterIp => match check_source(context, packet) {
            Ok(()) => send_error(
                IcmpError::PortUnreachable,
                context,
                packet,
                Counter::RejectUnknownPort,
            ),
            Err(verdict) => verdict,
        },
        Owner::Nobody => drop_packet(context, Counter::DropFreeAddress),
        Owner::External if way_back.is_some_and(|way| way.is_loop(context, packet)) => {
            drop_packet(context, Counter::DropLoop)
        }
        Owner::External | Owner::Other => Verdict::PASS,
    }
}

/// Returns whether the frame was for another station, and no pod behind a bridge of ours has sent it.
#[inline(always)]
fn is_overheard<F: Routed>(context: &impl Access, packet: &Packet<F>) -> bool {
    context.is_for_other_station() && !is_client_here::<F>(&packet.tuple.source, packet.interface)
}

/// Returns whether it is a whole echo request. Of one in fragments no program here has the whole.
#[inline(always)]
fn is_echo<F: Routed>(context: &impl Access, packet: &Packet<F>) -> bool {
    packet.protocol == F::ICMP
        && packet.form == Form::Whole
        && context
            .at::<IcmpHeader>(packet.transport.get())
            .is_ok_and(|icmp| icmp.kind == F::ECHO)
}

/// Answers an echo request in the address's name, as often as packets are rejected.
#[inline(always)]
fn answer<F: Routed>(context: &impl Access, packet: &Packet<F>) -> Verdict {
    if let Err(verdict) = check_source(context, packet) {
        return verdict;
    }
    if !may_be_told_about(context, packet) {
        return Verdict::PASS;
    }
    if !allows_rejection::<F>(&packet.tuple.source) {
        return drop_packet(context, Counter::DropRejectRate);
    }
    let sent = echo::answer(context, packet).and_then(|()| send_back(context, packet.link));
    let Ok(verdict) = sent else {
        return drop_packet(context, Counter::DropRewrite);
    };
    count(Counter::EchoReply);
    verdict
}
