//! The fast path: packets in the form that nearly all have, to which nothing happens that has not
//! happened before.
//!
//! Whole TCP segments and UDP datagrams without IP options or extension headers end here if they
//! are of an established connection that keeps its source, or of no service. Their headers are
//! where the compiler knows them to be, and nothing of them is kept in memory. Any other packet is
//! left as it came, and the general way looks at it from its begin: what is decided here is the
//! same there, only slower.

use aya_ebpf::programs::TcContext;
use shunt_common::{Address as _, ConntrackEntry, ConntrackKey, Counter, Direction, Sum, TCP, UDP};

use crate::{
    config, conntrack,
    counters::{count, drop},
    family::{Family, Header as _},
    frame::{at, at_mut},
    packet::Link,
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
    /// It gets the tuple of this entry, in which the client's end is its own.
    Translate(&'static mut ConntrackEntry<F>),
    /// It is not ours.
    Pass,
    /// It is not for here.
    General,
}

/// Handles the packet if it goes the fast path in this direction; `None` leaves it untouched.
#[inline(always)]
pub fn handle<F: Family>(context: &TcContext, link: Link, direction: Direction) -> Option<Verdict> {
    match at::<F::Header>(context, link.header_length())
        .ok()?
        .protocol_of_whole()?
    {
        TCP => segment::<F, TcpHeader>(context, link, TCP, direction),
        UDP => segment::<F, UdpHeader>(context, link, UDP, direction),
        _ => None,
    }
}

#[inline(always)]
fn segment<F: Family, T: Segment>(
    context: &TcContext,
    link: Link,
    protocol: u8,
    direction: Direction,
) -> Option<Verdict> {
    let begin = link.header_length();
    let Headers { network, transport } = at_mut::<Headers<F::Header, T>>(context, begin).ok()?;
    // What a frame has behind its packet's end is no header.
    let length = network.packet_length();
    if length < size_of::<Headers<F::Header, T>>() || begin + length > context.len() as usize {
        return None;
    }
    let ports = transport.ports().word();
    let (source, destination) = (*network.source(), *network.destination());
    let mut key = ConntrackKey::<F>::of_packet(&source, &destination, ports, protocol, direction);
    let way = match direction {
        Direction::Forward => request(&mut key, transport.opens()),
        Direction::Reply => reply(&key),
    };
    let entry = match way {
        Way::Translate(entry) => entry,
        Way::Pass => return Some(Verdict::Pass),
        Way::General => return None,
    };
    conntrack::note(entry, transport.says());

    let (old, new) = (&key.tuple, &entry.translated);
    let was = transport.checksum();
    let (address, port) = match direction {
        Direction::Forward => {
            *network.destination() = new.destination;
            transport.ports().destination = new.destination_port;
            (
                (&old.destination, &new.destination),
                (old.destination_port, new.destination_port),
            )
        }
        Direction::Reply => {
            *network.source() = new.source;
            transport.ports().source = new.source_port;
            (
                (&old.source, &new.source),
                (old.source_port, new.source_port),
            )
        }
    };
    let address = Sum::default().replace_all(address.0.words(), address.1.words());
    let port = Sum::default().replace(port.0.into(), port.1.into());
    network.follow(address);
    let offset = begin + F::HEADER_LENGTH;
    if follow::<F, T>(context, offset, was, address, port).is_err() {
        return Some(drop(context, Counter::DropRewrite));
    }
    count(match direction {
        Direction::Forward => Counter::Request,
        Direction::Reply => Counter::Reply,
    });
    Some(Verdict::Pass)
}

/// Where a backend's packet goes.
#[inline(always)]
fn reply<F: Family>(key: &ConntrackKey<F>) -> Way<F> {
    let Some(entry) = conntrack::entry(key) else {
        return Way::Pass;
    };
    let (old, new) = (&key.tuple, &entry.translated);
    if new.destination == old.destination && new.destination_port == old.destination_port {
        Way::Translate(entry)
    } else {
        Way::General
    }
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
    let is_syn = opens && key.protocol == TCP;
    if !is_syn && let Some(entry) = conntrack::entry(key) {
        let new = &entry.translated;
        let is_current = !opens || service::is_current::<F>(entry.backend, entry.generation);
        let keeps_source = new.source == old.source && new.source_port == old.source_port;
        return if is_current && keeps_source && !(is_snat_port && is_snat_ip::<F>(&old.destination))
        {
            Way::Translate(entry)
        } else {
            Way::General
        };
    }
    if service::exists::<F>(&old.destination, old.destination_port, key.protocol) {
        return Way::General;
    }
    key.direction = Direction::Reply as u8;
    if is_snat_port && conntrack::entry(key).is_some() {
        Way::General
    } else {
        Way::Pass
    }
}

/// Whether connections go on from this address now. A client may have a connection to it all the
/// same, if it is an external IP too; to one that they went on from before, none that could be
/// taken for an answer.
#[inline(always)]
fn is_snat_ip<F: Family>(address: &F::Address) -> bool {
    F::node().get(0).is_some_and(|node| node.snat == *address)
}
