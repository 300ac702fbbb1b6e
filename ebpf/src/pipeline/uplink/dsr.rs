//! Packets for frontends in mode dsr: to a backend elsewhere they go on in an envelope from here.
//!
//! The choice and the envelope are those of the TC program, see [`crate::pipeline::dsr`].

use shunt_common::{
    Address as _, Cell, Counter, FrontendKey, TCP, Tuple, UDP,
    connections::{Key, Role},
};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        envelope::{self, Wrapper},
        fib::Routed,
        next_hop::{self, EnvelopeWay},
    },
    lb::{flow, frontend, maglev::Maglev},
    maps::{
        constants::REPLY_PORTS,
        counters::{count, drop_packet},
    },
    packet::{
        family::Header as _,
        link::Link,
        offset::Extent,
        segment::{TcpHeader, UdpHeader},
    },
    pipeline::{
        dsr::{self, Server},
        headers::{Headers, headers, protocol},
    },
    rewrite::transport::SegmentMut,
};

/// Sends the packet on if it is one for a backend elsewhere of a frontend in mode dsr; `None` if it is as for
/// any other frontend. `located`: the result of [`crate::maps::dsr::located`].
#[inline(always)]
pub(crate) fn handle<F: Routed + Maglev>(context: &impl Access, located: u64) -> Option<Verdict> {
    match protocol::<F>(context, Link::Ethernet) {
        Some(TCP) => segment::<F, TcpHeader>(context, TCP, located),
        Some(UDP) => segment::<F, UdpHeader>(context, UDP, located),
        _ => None,
    }
}

#[inline(always)]
fn segment<F: Routed + Maglev, T: SegmentMut>(
    context: &impl Access,
    protocol: u8,
    located: u64,
) -> Option<Verdict> {
    let begin = Link::Ethernet.header_length();
    let Headers { network, transport } = headers::<F, T>(context, Link::Ethernet)?;
    let tuple: Tuple<F> = Tuple {
        source: network.source(),
        destination: network.destination(),
        source_port: transport.ports().source,
        destination_port: transport.ports().destination,
    };
    let key: FrontendKey<F> = FrontendKey::new(tuple.destination, tuple.destination_port, protocol);
    let cell = frontend::cell_of(key).filter(|cell| cell.has(Cell::DSR))?;
    // As at TC, a connection's reply is one first: the frontend may be younger than the connection.
    if is_reply(&tuple, protocol) {
        return None;
    }
    // No client's: the TC program knows what becomes of it.
    if transport.signal(|| 0).answers() {
        return Some(Verdict::PASS);
    }
    let length = network.packet_length() as u32;
    let extent = Extent {
        network: begin,
        payload: begin + F::HEADER_LENGTH + transport.length(),
    };
    // Without a connection, in the middle of one: the TC program knows what becomes of it.
    let as_ever = (!transport.may_be_first()).then_some(Verdict::PASS);
    let backend = match dsr::choose(&tuple, protocol, || context.interface(), cell) {
        Server::Backend(backend) => backend,
        // The TC program makes the same choice.
        Server::Own | Server::Nobody => return Some(Verdict::PASS),
        Server::Any => return as_ever,
    };
    let own = F::node().get(0)?.snat;
    // The TC program knows why it drops some of these.
    if own.is_unspecified() || !network.is_intact() || !F::is_forwarded_from(&tuple.source) {
        return Some(Verdict::PASS);
    }
    let between: Tuple<F> = Tuple {
        source: own,
        destination: backend.address,
        source_port: 0,
        destination_port: 0,
    };
    let (node, way) = match next_hop::find_for_envelope(context, extent, &tuple, &between, located)
    {
        EnvelopeWay::To(node, way) => (node, way),
        EnvelopeWay::Elsewhere => return Some(Verdict::PASS),
        EnvelopeWay::Nowhere => return as_ever,
    };
    // A driver that has left no room before the frame leaves the packet as it is.
    if context.wrap(F::HEADER_LENGTH as u32).is_err() {
        return Some(Verdict::PASS);
    }
    let outer = Tuple {
        destination: node,
        ..between
    };
    let flow = flow::label(&tuple, protocol);
    let sent = envelope::fill(context, begin, length, &outer, (flow, Wrapper::FirstNode))
        .and_then(|()| way.take::<F>(context));
    let Ok(verdict) = sent else {
        return Some(drop_packet(context, Counter::DropRewrite));
    };
    count(Counter::Wrapped);
    Some(verdict)
}

/// Returns whether the packet with this tuple is a reply of a connection that goes on from this node's address.
#[inline(always)]
fn is_reply<F: Maglev>(tuple: &Tuple<F>, protocol: u8) -> bool {
    // Nearly no frontend has such a port.
    if !REPLY_PORTS.load().contains(tuple.destination_port) {
        return false;
    }
    let mut own = Key::new(tuple, protocol, Role::Reply);
    F::sought(&mut own).is_some_and(|key| F::connections().find_half(key).is_some())
}
