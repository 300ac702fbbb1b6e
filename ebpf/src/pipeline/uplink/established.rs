//! Packets of connections that go on from this node's address (SNAT), in both directions.

use shunt_common::{
    Counter, TCP, Tuple, UDP,
    connections::{Facts, Key, Meta, Role, Slot as _, place},
};

use crate::{
    ctx::{access::Access, verdict::Verdict},
    forward::{
        fib::Routed,
        next_hop::{self, Origin},
    },
    maps::{
        addresses::{is_any_own, is_of_pod},
        clock::now,
        constants::REPLY_PORTS,
        counters::{count, drop_packet},
        services::{count_packet, counts_traffic},
    },
    nat::{
        conntrack::{self, awaits_answer, is_first_answer, is_opening},
        mend::{Mend, is_broken},
        wanted::Half,
    },
    packet::{
        family::Header as _,
        link::Link,
        offset::Extent,
        segment::{Ports, TcpHeader, UdpHeader},
    },
    pipeline::headers::{Headers, headers, protocol},
    rewrite::{
        checksum::adjust_segment,
        network::{HeaderMut as _, decrement_hop_limit_of},
        transport::SegmentMut,
    },
};

/// Sends the packet on if it is of such a connection; `None` if it is of none, and may begin one to a
/// frontend or, if `may_wrap`, go on to one in an envelope. `has_frontends`: whether frontends may have its
/// destination.
#[inline(always)]
pub(crate) fn handle<F: Routed + Mend>(
    context: &impl Access,
    has_frontends: bool,
    may_wrap: bool,
) -> Option<Verdict> {
    match protocol::<F>(context, Link::Ethernet) {
        Some(TCP) => segment::<F, TcpHeader>(context, TCP, has_frontends, may_wrap),
        Some(UDP) => segment::<F, UdpHeader>(context, UDP, has_frontends, may_wrap),
        _ => Some(Verdict::PASS),
    }
}

#[inline(always)]
fn segment<F: Routed + Mend, T: SegmentMut>(
    context: &impl Access,
    protocol: u8,
    has_frontends: bool,
    may_wrap: bool,
) -> Option<Verdict> {
    let Some(Headers { network, transport }) = headers::<F, T>(context, Link::Ethernet) else {
        return Some(Verdict::PASS);
    };
    let destination = network.destination();
    // A packet for a pod of this node, or for a pod that reaches itself.
    if is_of_pod::<F>(&destination) || destination == F::hairpin_ip() {
        return Some(Verdict::PASS);
    }
    let may_be_reply = REPLY_PORTS.load().contains(transport.ports().destination);
    let addresses = F::pack(network.source(), destination);
    let mut own = Key::of_words(addresses, transport.ports().word(), protocol, Role::Reply);
    let Some(key) = F::sought(&mut own) else {
        return Some(Verdict::PASS);
    };
    let mut found = None;
    if may_be_reply {
        found = F::connections().find_half(key);
    }
    if found.is_none() && has_frontends {
        key.set_role(Role::Forward);
        found = F::connections().find_half(key);
    }
    if found.is_none() && has_frontends && is_any_own() {
        // The TC program knows whether the packet answers a connection of this node's own.
        key.set_role(Role::Reply);
        if F::connections().find_half(key).is_some() {
            return Some(Verdict::PASS);
        }
    }
    let Some(half) = found else {
        let is_wanted = has_frontends && (may_wrap || transport.may_be_first());
        return (!is_wanted).then_some(Verdict::PASS);
    };
    if !is_plain::<F, T>(&half, transport) {
        return Some(Verdict::PASS);
    }
    let now = now();
    let hit = match F::connections().read(half) {
        Some(hit) if !is_broken(&hit, now) => hit,
        _ => return Some(Verdict::PASS),
    };
    let translated = hit.translated();
    // With its client's address kept, what belongs to a backend here is TC's, even if its port is not; and
    // what keeps its source goes through the stack, also the reply of a backend at its frontend's address.
    let keeps_address = translated.source == network.source()
        || hit.meta.role() == Role::Reply && translated.destination == destination;
    if keeps_address || translated.source == F::hairpin_ip() {
        return Some(Verdict::PASS);
    }
    let begin = Link::Ethernet.header_length();
    let offset = begin + F::HEADER_LENGTH;
    let extent = Extent {
        network: begin,
        payload: offset + transport.length(),
    };
    let came = Tuple {
        source: network.source(),
        destination,
        source_port: transport.ports().source,
        destination_port: transport.ports().destination,
    };
    let origin = Origin {
        came: &came,
        is_proven: hit.meta.has(Meta::ASSURED),
    };
    let Some(way) = next_hop::find(context, extent, &origin, &translated) else {
        return Some(Verdict::PASS);
    };
    let Some(Headers { network, transport }) = headers::<F, T>(context, Link::Ethernet) else {
        return Some(Verdict::PASS);
    };
    // The TC program drops it.
    if !network.is_intact() {
        return Some(Verdict::PASS);
    }
    let role = hit.meta.role();
    let signal = transport.signal(|| {
        let packet = network.packet_length();
        packet.saturating_sub(extent.payload - extent.network)
    });
    F::connections().observe(&hit, signal, now);
    if counts_traffic() {
        let service = Facts(hit.slot.load(place::FACTS)).service();
        let is_reply = role == Role::Reply;
        count_packet(service, is_reply.into(), network.packet_length() as u32);
    }
    let addresses = bytemuck::cast(hit.times.address_change());
    let ports = bytemuck::cast(hit.times.port_change());
    let was = transport.checksum();
    network.set_addresses(&translated, addresses);
    decrement_hop_limit_of::<F>(context, network);
    *transport.ports_mut() = Ports::of(&translated);
    let sent = adjust_segment::<F, T>(context, offset, was, addresses, ports)
        .and_then(|()| way.take::<F>(context));
    let Ok(verdict) = sent else {
        return Some(drop_packet(context, Counter::DropRewrite));
    };
    count(match role {
        Role::Forward => Counter::Request,
        Role::Reply => Counter::Reply,
    });
    Some(verdict)
}

/// Returns whether nothing has to be found out about the connection of this half before the packet is
/// translated: it does not keep its client's address, its time is not over, and the packet begins no
/// other one.
#[inline(always)]
fn is_plain<F: Routed + Mend, T: SegmentMut>(half: &Half, transport: &T) -> bool {
    if half.meta.keeps_client() || F::connections().may_have_expired(half, now()) {
        return false;
    }
    if half.meta.role() == Role::Reply {
        return !awaits_answer(half) || is_opening(half) && is_first_answer(transport.signal(|| 0));
    }
    // A SYN may begin another connection, a datagram may need another backend.
    let signal = transport.signal(|| 0);
    !signal.opens() && (!transport.may_be_first() || conntrack::is_current::<F>(half))
}
