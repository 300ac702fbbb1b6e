//! The fast path: packets in the form that nearly all have, to which nothing happens that has not
//! happened before.
//!
//! Whole TCP segments and UDP datagrams without IP options or extension headers end here if they
//! are of an established connection that keeps its source, or of no service. Their headers are
//! where the compiler knows them to be, and nothing of them is kept in memory. Any other packet is
//! left as it came, and the general way looks at it from its begin: what is decided here is the
//! same there, only slower.

use aya_ebpf::programs::TcContext;
use shunt_common::{ConntrackEntry, ConntrackKey, Counter, Direction, Hook, TCP, UDP};

use crate::{
    config, conntrack,
    counters::{count, drop},
    delivery,
    family::{Family, Header as _},
    frame::{Extent, at, at_mut},
    packet::Link,
    place,
    rewrite::follow,
    service,
    transport::{Segment, TcpHeader, UdpHeader},
    verdict::Verdict,
};

/// A packet's headers.
#[repr(C)]
struct Headers<N, T> {
    network: N,
    transport: T,
}

/// What a packet is to be done with.
enum Way<F: Family> {
    /// It gets the tuple of this entry of its direction, in which the client's end is its own.
    Translate(Direction, &'static mut ConntrackEntry<F>),
    /// It is not ours.
    Pass,
    /// It is not for here.
    General,
}

/// Handles the packet if it goes the fast path at this hook; `None` leaves it untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext, link: Link, hook: Hook) -> Option<Verdict> {
    match at::<F::Header>(context, link.header_length())
        .ok()?
        .protocol_of_whole()?
    {
        TCP => segment::<F, TcpHeader>(context, link, TCP, hook),
        UDP => segment::<F, UdpHeader>(context, link, UDP, hook),
        _ => None,
    }
}

#[inline(always)]
fn segment<F: Family, T: Segment>(
    context: &TcContext,
    link: Link,
    protocol: u8,
    hook: Hook,
) -> Option<Verdict> {
    let begin = link.header_length();
    let offset = begin + F::HEADER_LENGTH;
    let Headers { network, transport } = at_mut::<Headers<F::Header, T>>(context, begin).ok()?;
    // What a frame has behind its packet's end is no header.
    let length = network.packet_length();
    if length < size_of::<Headers<F::Header, T>>() || begin + length > context.len() as usize {
        return None;
    }
    let ports = transport.ports().word();
    let (source, destination) = (*network.source(), *network.destination());
    let key =
        |direction| ConntrackKey::<F>::of_packet(&source, &destination, ports, protocol, direction);
    let way = match hook {
        Hook::Ingress => incoming(&mut key(Direction::Forward), transport.opens()),
        Hook::Egress => reply(&key(Direction::Reply)),
    };
    let (direction, entry) = match way {
        Way::Translate(direction, entry) => (direction, entry),
        Way::Pass => return Some(Verdict::PASS),
        Way::General => return None,
    };
    let extent = Extent {
        network: begin,
        payload: offset + transport.length(),
    };
    let hop = match hook {
        Hook::Ingress => delivery::find(context, link, extent, &entry.translated, false),
        Hook::Egress => None,
    };
    if hook == Hook::Ingress && direction == Direction::Reply && hop.is_none() {
        return None;
    }
    conntrack::note(entry, transport.says());

    let was = transport.checksum();
    match direction {
        Direction::Forward => {
            *network.destination() = entry.translated.destination;
            transport.ports().destination = entry.translated.destination_port;
        }
        Direction::Reply => {
            *network.source() = entry.translated.source;
            transport.ports().source = entry.translated.source_port;
        }
    }
    let (addresses, ports) = (entry.address_change, entry.port_change);
    network.follow(addresses);
    if follow::<F, T>(context, offset, was, addresses, ports).is_err() {
        return Some(drop(context, Counter::DropRewrite));
    }
    let verdict = match hop {
        Some(hop) if hop.take::<F>(context, begin).is_err() => {
            return Some(drop(context, Counter::DropRewrite));
        }
        Some(_) => Verdict::REDIRECT,
        None => Verdict::PASS,
    };
    count(match direction {
        Direction::Forward => Counter::Request,
        Direction::Reply => Counter::Reply,
    });
    Some(verdict)
}

/// Where a backend's packet goes.
#[inline(always)]
fn reply<F: Family>(key: &ConntrackKey<F>) -> Way<F> {
    match conntrack::entry(key) {
        None => Way::Pass,
        Some(entry) if keeps_client(entry) => Way::Translate(Direction::Reply, entry),
        Some(_) => Way::General,
    }
}

/// Where a packet goes that comes in: of a client, or also of a backend if those are delivered in
/// one hop.
#[inline(always)]
fn incoming<F: Family>(key: &mut ConntrackKey<F>, opens: bool) -> Way<F> {
    // What is for a pod of this node is a reply, or of no service.
    if F::is_of_pod(&key.tuple.destination) {
        if config::redirects() {
            key.direction = Direction::Reply as u8;
            match reply(key) {
                Way::Pass => key.direction = Direction::Forward as u8,
                way => return way,
            }
        }
        if place::are_pods_no_frontends::<F>() {
            return Way::Pass;
        }
    }
    request(key, opens)
}

/// Where a client's packet goes.
#[inline(always)]
fn request<F: Family>(key: &mut ConntrackKey<F>, opens: bool) -> Way<F> {
    let old = key.tuple;
    // What comes to such an address or port may be an answer to one that we gave a client in its
    // own's place.
    if old.destination == F::hairpin_ip() {
        return Way::General;
    }
    let is_snat_port = config::SNAT_PORTS.load().contains(old.destination_port);
    if let Some(entry) = conntrack::entry(key) {
        // A SYN may be one of an ended connection; that is noted before this packet is.
        let is_syn = opens && key.protocol == TCP;
        let is_current = !opens || service::is_current::<F>(entry.backend, entry.generation);
        let is_answer = is_snat_port && is_snat_ip::<F>(&old.destination);
        return if keeps_client(entry) && is_current && !is_syn && !is_answer {
            Way::Translate(Direction::Forward, entry)
        } else {
            Way::General
        };
    }
    if service::exists::<F>(&old.destination, old.destination_port, key.protocol) {
        return Way::General;
    }
    key.direction = Direction::Reply as u8;
    if (is_snat_port || config::redirects()) && conntrack::entry(key).is_some() {
        Way::General
    } else {
        Way::Pass
    }
}

#[inline(always)]
const fn keeps_client<F: Family>(entry: &ConntrackEntry<F>) -> bool {
    entry.seen & ConntrackEntry::<F>::KEEPS_CLIENT != 0
}

/// Whether connections go on from this address now. A client may have a connection to it all the
/// same, if it is an external IP too; to one that they went on from before, none that could be
/// taken for an answer.
#[inline(always)]
fn is_snat_ip<F: Family>(address: &F::Address) -> bool {
    F::node().get(0).is_some_and(|node| node.snat == *address)
}
