//! Direct server return (DSR): a client's packet goes to its backend's node in an envelope, and that node
//! answers the client itself.
//!
//! The first node sees one direction only and remembers nothing: each packet shows by itself where it goes.
//! So a connection survives it, if another node gets its packets and has the same backends.

use shunt_common::{Address as _, Backend, Cell, Counter, FrontendKey, Hook, TCP, Tuple};

use crate::{
    ctx::{
        access::{Access, AccessError},
        verdict::Verdict,
    },
    forward::{
        admission::{check_hops, check_source},
        envelope::{self, Wrapper},
        fib::Routed,
        icmp_error::send_error,
        origin,
        stack::is_translated_behind,
        transit::NoRoute,
    },
    lb::{
        flow::{self, Share},
        frontend,
        maglev::Maglev,
    },
    maps::{
        addresses::{is_dsr_source, is_of_cluster_pod, is_on_this_node, is_own, is_pod_interface},
        constants::{are_pods_told_by_interface, lowers_mss},
        counters::{count, drop_packet},
        dsr::{location, other_node},
        services::{count_translated, drop_refused},
        tables::Tables,
    },
    nat::fragments,
    packet::{
        extensions::WalkExtensions,
        family::Header as _,
        link::Link,
        network::end_beyond_header,
        parse::{LONGEST_HEADERS, read_at},
        parsed::{Form, Packet},
    },
    pipeline::{opened::Opened, program::Program},
    rewrite::{congestion, mss},
};

/// Sends the packet to its backend's node, if it is one of a client's elsewhere for a backend elsewhere;
/// `None` if it is served here, by this node's own backends if [`Packet::is_for_own`] is set then, or by
/// none if [`Packet::is_refused`] is. `cell` is that of its frontend, which is in mode dsr; of a later fragment, nothing.
#[inline(always)]
pub(crate) fn dispatch<F: Routed + Maglev>(
    context: &impl Access,
    packet: &mut Packet<F>,
    cell: Cell,
) -> Option<Verdict> {
    let wrapper = if packet.is_for_own {
        Wrapper::BackendsNode
    } else {
        Wrapper::FirstNode
    };
    let destination = if packet.form == Form::LaterFragment {
        packet.tuple.destination
    } else {
        find_node(packet, cell)?
    };
    let mut outer = Tuple {
        source: F::node().get(0)?.snat,
        destination,
        source_port: 0,
        destination_port: 0,
    };
    if packet.form == Form::LaterFragment {
        let source = outer.source;
        if !fragments::recall(packet, Hook::Ingress, &mut outer) {
            return None;
        }
        outer.source = source;
    }
    if outer.source.is_unspecified() {
        return None;
    }
    if let Err(verdict) = check_source(context, packet).and_then(|()| check_hops(context, packet)) {
        return Some(verdict);
    }
    // By a way that is too narrow for envelopes, the packet goes on as if its backend's node were not known, and so
    // does one whose source may be forged: the stack judges it then.
    let route = match envelope::find(context, packet, &outer)? {
        Ok(route) => route,
        Err(NoRoute::Told(error, reason)) => {
            return Some(send_error(error, context, packet, reason));
        }
        Err(_) => return Some(drop_refused(context, packet, Counter::DropNoRoute)),
    };
    fragments::remember(packet, Hook::Ingress, &outer);
    // All fragments of a datagram come from one address, and the later ones do not show their flow.
    let flow = if packet.form == Form::Whole {
        flow::label(&packet.tuple, packet.protocol)
    } else {
        None
    };
    let Ok(verdict) = envelope::send(context, packet, &outer, (flow, wrapper), route) else {
        return Some(drop_refused(context, packet, Counter::DropRewrite));
    };
    count_translated(packet, Counter::Wrapped);
    Some(verdict)
}

/// The address of the node to which the packet goes, which is not this one. `None` if it is served here, by
/// this node's own backends if [`Packet::is_for_own`] is set then, or by none if [`Packet::is_refused`] is.
#[inline(always)]
fn find_node<F: Routed + Maglev>(packet: &mut Packet<F>, cell: Cell) -> Option<F::Address> {
    let server = if packet.is_for_own {
        Server::Own
    } else {
        choose(&packet.tuple, packet.protocol, || packet.interface, cell)
    };
    if !matches!(server, Server::Backend(_))
        && may_be_of_draining(packet, cell)
        && let Some(node) = find_draining(packet, cell)
    {
        return Some(node);
    }
    match server {
        Server::Any => None,
        Server::Own => {
            packet.is_for_own = true;
            None
        }
        Server::Nobody => {
            packet.is_refused = true;
            None
        }
        Server::Backend(backend) => other_node::<F>(&backend.address),
    }
}

/// Returns whether the packet, of a connection that this node does not know, may be of one to a backend that is
/// draining elsewhere: it cannot be a first one, and the frontend with this cell has such backends.
#[inline(always)]
pub(crate) fn may_be_of_draining<F: Tables>(packet: &Packet<F>, cell: Cell) -> bool {
    cell.has(Cell::DRAINING) && !packet.may_be_first && !packet.is_handed_on
}

/// The address of the other node that packets with this tuple went to before backends began to drain. `cell` is that
/// of their frontend.
#[inline(always)]
fn find_draining<F: Routed + Maglev>(packet: &Packet<F>, cell: Cell) -> Option<F::Address> {
    let Packet {
        tuple, protocol, ..
    } = packet;
    let frontend = || frontend_address(packet);
    if !is_dispatched(tuple, *protocol, frontend, || packet.interface, cell) {
        return None;
    }
    let key: FrontendKey<F> = FrontendKey::new(frontend(), tuple.destination_port, *protocol);
    let cell = frontend::cell_of(key.scoped(FrontendKey::<F>::WITH_DRAINING))?;
    match chosen(cell, tuple, *protocol) {
        Server::Backend(backend) => other_node::<F>(&backend.address),
        _ => None,
    }
}

/// Server of a packet for a frontend in mode dsr.
pub(crate) enum Server<F: Tables> {
    /// Any backend, as if the frontend were in no such mode.
    Any,
    /// One of this node's own.
    Own,
    /// None: it is of a share that is refused.
    Nobody,
    /// This one, which is elsewhere.
    Backend(&'static Backend<F>),
}

/// Chooses who serves packets with this tuple that come in by the `interface`, which is asked for only if it
/// matters, for the frontend with this cell.
#[inline(always)]
pub(crate) fn choose<F: Maglev>(
    tuple: &Tuple<F>,
    protocol: u8,
    interface: impl FnOnce() -> u32,
    cell: Cell,
) -> Server<F> {
    if is_dispatched(tuple, protocol, || tuple.destination, interface, cell) {
        chosen(cell, tuple, protocol)
    } else {
        Server::Any
    }
}

/// Returns whether packets with this tuple that come in by the `interface` may be served on other nodes, through the
/// frontend at this address with this cell.
#[inline(always)]
fn is_dispatched<F: Maglev>(
    tuple: &Tuple<F>,
    protocol: u8,
    frontend: impl FnOnce() -> F::Address,
    interface: impl FnOnce() -> u32,
    cell: Cell,
) -> bool {
    let client = tuple.source;
    if cell.has(Cell::THIS_NODE_ONLY)
        || is_on_this_node::<F>(&client)
        || are_pods_told_by_interface() && is_pod_interface(interface())
        || is_of_cluster_pod::<F>(&client)
    {
        return false;
    }
    // Refused as any other.
    let key = || FrontendKey::<F>::new(frontend(), tuple.destination_port, protocol);
    !cell.has(Cell::RANGES) || frontend::in_ranges(key(), cell, client)
}

/// Returns the server that the cell's slice has for packets with this tuple.
#[inline(always)]
fn chosen<F: Maglev>(cell: Cell, tuple: &Tuple<F>, protocol: u8) -> Server<F> {
    if !frontend::has_backends(cell) {
        return Server::Any;
    }
    match flow::choose(cell, tuple, protocol) {
        None => Server::Any,
        Some(Share::Refused) => Server::Nobody,
        Some(Share::Backend(choice)) if choice.backend.flags & Backend::<F>::LOCAL != 0 => {
            Server::Own
        }
        Some(Share::Backend(choice)) => Server::Backend(choice.backend),
    }
}

/// As [`lower_mss`], of any reply that was translated.
#[inline(always)]
pub(crate) fn adapt<F: Program<C>, C: Access>(
    context: &C,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Result<(), AccessError> {
    let is_concerned = lowers_mss() && packet.signal.answers() && packet.protocol == TCP;
    if is_concerned && !F::lower_mss(context, packet, translated) {
        return Err(AccessError::Refused);
    }
    Ok(())
}

/// Has a backend's answer to a SYN, which has gone back to its frontend, announce how much of a segment fits
/// into an envelope, if the frontend is in mode dsr. Packets to the client wear none.
#[inline(always)]
pub(crate) fn lower_mss<F: Routed>(
    context: &impl Access,
    packet: &Packet<F>,
    translated: &Tuple<F>,
) -> Result<(), AccessError> {
    let is_concerned = |address| is_dsr::<F>(address, translated.source_port, packet.protocol);
    let address = translated.source;
    let stands_for_other = || {
        is_other_node::<F>(&address) && F::node().get(0).is_some_and(|node| is_concerned(node.snat))
    };
    if !is_concerned(address) && !stands_for_other() {
        return Ok(());
    }
    let (transport, end) = (packet.transport.get(), packet.end as usize);
    mss::lower::<F>(context, transport, end, F::HEADER_LENGTH as u16)
}

/// Returns whether the tuple that a first fragment left with shows that it left in an envelope.
#[inline(always)]
pub(crate) const fn is_outer<F: Tables>(left: &Tuple<F>) -> bool {
    // A client may have no port, a frontend and a backend always do.
    left.source_port == 0 && left.destination_port == 0
}

/// Takes the packet out of its envelope, if it is one that another node of the cluster has sent to this
/// one, with a packet for a frontend in mode dsr. `packet` is for reading it.
#[inline(always)]
pub(crate) fn open<F: Routed, C: WalkExtensions>(
    context: &C,
    link: Link,
    packet: &mut Packet<F>,
) -> Opened {
    let mut opened = Opened::Not;
    if let Some((end, is_handed_on)) = end_of_ours::<F>(context, link) {
        opened = inside(context, link, end, packet, is_handed_on);
    }
    *packet = Packet::none();
    if opened == Opened::Not {
        return opened;
    }
    let outer = link.header_length();
    if !is_from_there::<F>(context, outer) {
        count(Counter::PassForgedEnvelope);
        return Opened::Not;
    }
    if !congestion::hand_on::<F>(context, outer, outer + F::HEADER_LENGTH) {
        let _ = drop_packet(context, Counter::DropCongestion);
        return Opened::Dropped;
    }
    if context.unwrap(F::HEADER_LENGTH as u32).is_err() {
        return Opened::Not;
    }
    count(Counter::Unwrapped);
    opened
}

/// Returns the packet's end, if it is an envelope from another node to this one and all there, and whether that has
/// handed on what is inside.
#[inline(always)]
fn end_of_ours<F: Routed>(context: &impl Access, link: Link) -> Option<(usize, bool)> {
    let begin = link.header_length();
    let header = context.at::<F::Header>(begin).ok()?;
    let (source, destination) = (header.source(), header.destination());
    let end = match header.packet_length() {
        0 => end_beyond_header(context).ok()?,
        length => begin + length,
    };
    let is_ours = header.protocol_of_whole() == Some(F::ENVELOPE)
        && end <= context.length() as usize
        && is_own::<F>(&destination)
        && (location::<F>(&source) == Some(source) || is_dsr_source::<F>(&source))
        && !context.is_for_other_station()
        && header.is_intact();
    let is_handed_on = envelope::is_handed_on(header.hop_limit());
    is_ours.then_some((end, is_handed_on))
}

/// Returns whether the envelope with its header at `begin` came in where one from its source may: no pod of this node
/// sends any, and the stack would accept a packet from a node's address there.
#[inline(always)]
fn is_from_there<F: Routed>(context: &impl Access, begin: usize) -> bool {
    let Ok(header) = context.at::<F::Header>(begin) else {
        return false;
    };
    let outer: Tuple<F> = Tuple {
        source: header.source(),
        destination: header.destination(),
        source_port: 0,
        destination_port: 0,
    };
    let interface = context.interface();
    if is_own::<F>(&outer.source) || is_pod_interface(interface) {
        return false;
    }
    // No route leads to a source out of a range.
    let is_judged = F::HAS_REVERSE_PATH_FILTER
        && !is_dsr_source::<F>(&outer.source)
        && is_translated_behind(interface);
    !is_judged || origin::may_come(context, begin, &outer)
}

/// Returns whether the packet inside, of an envelope that ends at `end`, is one for a frontend in mode dsr, and
/// whose that is.
#[inline(always)]
fn inside<F: Routed, C: WalkExtensions>(
    context: &C,
    link: Link,
    end: usize,
    packet: &mut Packet<F>,
    is_handed_on: bool,
) -> Opened {
    context.pull(LONGEST_HEADERS);
    let begin = link.header_length() + F::HEADER_LENGTH;
    if read_at(context, link, begin, packet).is_err() || packet.end as usize > end {
        return Opened::Not;
    }
    if packet.form == Form::LaterFragment {
        let mut left = packet.tuple;
        let is_known = fragments::recall(packet, Hook::Ingress, &mut left);
        return match (is_known, is_handed_on) {
            // What was handed on goes to no further node.
            (true, true) if is_outer(&left) => Opened::Not,
            (true, true) => Opened::HandedOnForAll,
            (true, false) => Opened::ForAll,
            (false, _) => Opened::Not,
        };
    }
    let is_wanted = |address| is_dsr::<F>(address, packet.tuple.destination_port, packet.protocol);
    let destination = packet.tuple.destination;
    // Another node's address may be an external IP, which all nodes have.
    let opened = if is_wanted(destination) {
        Opened::ForAll
    } else if is_other_node::<F>(&destination)
        && F::node().get(0).is_some_and(|node| is_wanted(node.snat))
    {
        Opened::ForOtherNode
    } else {
        Opened::Not
    };
    if is_handed_on {
        opened.handed_on()
    } else {
        opened
    }
}

/// Returns whether there is such a frontend, in mode dsr. The port is in network order.
#[inline(always)]
fn is_dsr<F: Tables>(address: F::Address, port: u16, protocol: u8) -> bool {
    let key: FrontendKey<F> = FrontendKey::new(address, port, protocol);
    frontend::cell_of(key).is_some_and(|cell| cell.has(Cell::DSR))
}

/// Returns whether the address is that of another node of the cluster.
#[inline(always)]
fn is_other_node<F: Tables>(address: &F::Address) -> bool {
    location::<F>(address) == Some(*address) && !is_own::<F>(address)
}

/// The address of the frontend that the packet is for, as this node knows it.
#[inline(always)]
pub(crate) fn frontend_address<F: Tables>(packet: &Packet<F>) -> F::Address {
    if packet.is_for_other_node
        && let Some(node) = F::node().get(0)
    {
        return node.snat;
    }
    packet.tuple.destination
}
