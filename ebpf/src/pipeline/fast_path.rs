//! The fast path: packets in the form that nearly all have, whose connection is known.
//!
//! Whole TCP segments and UDP datagrams without IP options or extension headers end here if they
//! are of an established connection that keeps its source, or of no service. Their headers are
//! where the compiler knows them to be, and nothing of them is kept in memory. Any other packet is
//! left as it came, and the general path looks at it from its begin: it decides the same, only
//! more slowly.

use shunt_common::{ConntrackEntry, ConntrackKey, Counter, Direction, Hook, TCP, UDP};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{redirect, stack},
    lb::frontend,
    maps::{
        addresses::{are_pods_no_frontends, is_of_pod, is_snat_ip},
        backends::is_current,
        constants::{SNAT_PORTS, redirects},
        counters::{count, drop_packet},
        tables::Tables,
    },
    nat::conntrack,
    packet::{
        family::Header as _,
        link::Link,
        offset::Extent,
        segment::{TcpHeader, UdpHeader},
    },
    pipeline::program::Program,
    rewrite::{checksum::adjust_segment, network::HeaderMut as _, transport::SegmentMut},
};

/// A packet's headers.
#[repr(C)]
struct Headers<N, T> {
    network: N,
    transport: T,
}

/// What is to be done with a packet.
enum Action<F: Tables> {
    /// It gets the tuple of this entry, which is of this direction and keeps the client's end.
    Translate(Direction, &'static mut ConntrackEntry<F>),
    /// It is not ours.
    Pass,
    /// It takes the general path.
    General,
}

/// Handles the packet if it goes the fast path at this hook; `None` leaves it untouched.
#[inline(always)]
pub(crate) fn handle<F: Program<C>, C: Access>(
    context: &C,
    link: Link,
    hook: Hook,
) -> Option<Verdict> {
    match context
        .at::<F::Header>(link.header_length())
        .ok()?
        .protocol_of_whole()?
    {
        TCP => segment::<F, C, TcpHeader>(context, link, TCP, hook),
        UDP => segment::<F, C, UdpHeader>(context, link, UDP, hook),
        _ => None,
    }
}

#[inline(always)]
fn segment<F: Program<C>, C: Access, T: SegmentMut>(
    context: &C,
    link: Link,
    protocol: u8,
    hook: Hook,
) -> Option<Verdict> {
    let begin = link.header_length();
    let offset = begin + F::HEADER_LENGTH;
    let Headers { network, transport } = context.at_mut::<Headers<F::Header, T>>(begin).ok()?;
    // What a frame has behind its packet's end is no header.
    let length = network.packet_length();
    if length < size_of::<Headers<F::Header, T>>() || begin + length > context.length() as usize {
        return None;
    }
    let ports = transport.ports().word();
    let (source, destination) = (network.source(), network.destination());
    let key =
        |direction| ConntrackKey::<F>::of_packet(&source, &destination, ports, protocol, direction);
    let action = match hook {
        Hook::Ingress => incoming(&mut key(Direction::Original), transport.may_be_first()),
        Hook::Egress => reply(&key(Direction::Reply)),
    };
    let (direction, entry) = match action {
        Action::Translate(direction, entry) => (direction, entry),
        Action::Pass if hook == Hook::Egress && stack::is_halfway(context) => return None,
        Action::Pass => return Some(Verdict::PASS),
        Action::General => return None,
    };
    let extent = Extent {
        network: begin,
        payload: offset + transport.length(),
    };
    let hop = match hook {
        Hook::Ingress => redirect::find(context, link, extent, &entry.translated, false),
        Hook::Egress => None,
    };
    if hook == Hook::Ingress && direction == Direction::Reply && hop.is_none() {
        return None;
    }
    conntrack::update(entry, transport.flags());

    let was = transport.checksum();
    match direction {
        Direction::Original => {
            network.set_destination(entry.translated.destination);
            transport.ports_mut().destination = entry.translated.destination_port;
        }
        Direction::Reply => {
            network.set_source(entry.translated.source);
            transport.ports_mut().source = entry.translated.source_port;
        }
    }
    let (addresses, ports) = (entry.address_change, entry.port_change);
    network.adjust_checksum(addresses);
    if adjust_segment::<F, T>(context, offset, was, addresses, ports).is_err() {
        return Some(drop_packet(context, Counter::DropRewrite));
    }
    let sent = match hop {
        Some(hop) => hop.take::<F>(context, begin),
        None => Ok(Verdict::PASS),
    };
    let Ok(verdict) = sent else {
        return Some(drop_packet(context, Counter::DropRewrite));
    };
    count(match direction {
        Direction::Original => Counter::Request,
        Direction::Reply => Counter::Reply,
    });
    Some(verdict)
}

/// What is to be done with a backend's packet.
#[inline(always)]
fn reply<F: Tables>(key: &ConntrackKey<F>) -> Action<F> {
    match conntrack::entry(key) {
        None => Action::Pass,
        Some(entry) if keeps_client(entry) => Action::Translate(Direction::Reply, entry),
        Some(_) => Action::General,
    }
}

/// What is to be done with a packet that comes in: of a client, or also of a backend if those are
/// redirected.
#[inline(always)]
fn incoming<F: Tables>(key: &mut ConntrackKey<F>, may_be_first: bool) -> Action<F> {
    // A packet for a pod of this node is a reply, or of no service.
    if is_of_pod::<F>(&key.tuple.destination) {
        if redirects() {
            key.direction = Direction::Reply as u8;
            match reply(key) {
                Action::Pass => key.direction = Direction::Original as u8,
                action => return action,
            }
        }
        if are_pods_no_frontends::<F>() {
            return Action::Pass;
        }
    }
    request(key, may_be_first)
}

/// What is to be done with a client's packet.
#[inline(always)]
fn request<F: Tables>(key: &mut ConntrackKey<F>, may_be_first: bool) -> Action<F> {
    let old = key.tuple;
    // Hairpin or SNAT may have given a client this address and port: the packet may be a reply.
    if old.destination == F::hairpin_ip() {
        return Action::General;
    }
    let is_snat_port = SNAT_PORTS.load().contains(old.destination_port);
    if let Some(entry) = conntrack::entry(key) {
        // A SYN may begin a new connection after an ended one; the general path asks the entry
        // before it updates it.
        let is_syn = may_be_first && key.protocol == TCP;
        let is_current = !may_be_first || is_current::<F>(entry.backend, entry.generation);
        let is_reply = is_snat_port && is_snat_ip::<F>(&old.destination);
        return if keeps_client(entry) && is_current && !is_syn && !is_reply {
            Action::Translate(Direction::Original, entry)
        } else {
            Action::General
        };
    }
    if frontend::exists::<F>(&old.destination, old.destination_port, key.protocol) {
        return Action::General;
    }
    key.direction = Direction::Reply as u8;
    if (is_snat_port || redirects()) && conntrack::entry(key).is_some() {
        Action::General
    } else {
        Action::Pass
    }
}

#[inline(always)]
const fn keeps_client<F: Tables>(entry: &ConntrackEntry<F>) -> bool {
    entry.seen & ConntrackEntry::<F>::KEEPS_CLIENT != 0
}
