//! Creation of a connection.

use shunt_common::{Backend, Cell, Counter, TCP, Tuple, UDP};

use crate::{
    maps::{
        addresses::{is_client_here, is_of_cluster_pod, is_on_this_node},
        backends::Choice,
        clock::now,
        constants::masquerades_all,
        dsr::note_tracked,
        paths, reached,
        tables::{DIRECT, Tables},
    },
    nat::{
        conntrack,
        open::{Destination, Open, Opener, Source, open},
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// Opens the packet's connection to the chosen backend of the frontend with this cell. Puts the tuple that the packet is to leave
/// with into `translated`; `Err` is why there is none. `replaced` is the connection that has had the
/// packet's tuple until now.
#[inline(always)]
pub(crate) fn create<F: Open>(
    packet: &Packet<F>,
    choice: &Choice<F>,
    cell: Cell,
    replaced: Option<&Half>,
    translated: &mut Tuple<F>,
) -> Result<Opener, Counter> {
    if cell.has(Cell::DSR) {
        note_tracked();
    }
    let address = source_for(packet, cell, choice.backend)?;
    let avoided = replaced.map_or(Source::<F>::NO_PORT, give_up::<F>);
    create_from(packet, choice, &address, avoided, translated)
}

/// As [`create`], of a connection that goes on from `address`, from another port than `avoided`.
#[inline(always)]
pub(crate) fn create_from<F: Open>(
    packet: &Packet<F>,
    choice: &Choice<F>,
    address: &F::Address,
    avoided: u32,
    translated: &mut Tuple<F>,
) -> Result<Opener, Counter> {
    let destination = Destination {
        address: &choice.backend.address,
        port: choice.backend.port,
        backend: choice.index,
        generation: choice.generation(),
        service: packet.service.get(),
    };
    let client = packet.tuple;
    let source = Source {
        address,
        keeps_port: *address == client.source || *address == F::hairpin_ip(),
        avoided,
    };
    let opened = open(packet, &destination, &source, translated)?;
    if translated.source == client.source {
        reached::note::<F>(
            &choice.backend.address,
            choice.backend.port,
            packet.protocol,
        );
    }
    Ok(opened)
}

/// Opens a connection of a packet that goes to a backend itself, if that has one with the same
/// tuple through a frontend: then this one goes on from another source port. Returns the opener, if it does.
/// `replaced` is the connection that has had the packet's tuple until now. `is_sent_on`: another hook has translated
/// the packet.
#[inline(always)]
pub(crate) fn create_direct<F: Open>(
    packet: &Packet<F>,
    replaced: Option<&Half>,
    is_sent_on: bool,
    translated: &mut Tuple<F>,
) -> Option<Opener> {
    let Tuple {
        destination,
        destination_port,
        ..
    } = packet.tuple;
    let is_tcp = packet.protocol == TCP;
    let may_clash = match packet.protocol {
        TCP => packet.signal.opens(),
        UDP => !is_sent_on && reached::may_be::<F>(&destination, destination_port),
        _ => false,
    };
    if !may_clash {
        return None;
    }
    // Whatever becomes of the packet, what follows it must not get that one's source port.
    if let Some(replaced) = replaced
        && conntrack::is_direct::<F>(replaced)
    {
        conntrack::forget::<F>(replaced);
    }
    let half = conntrack::find(packet, Wanted::Answer)?;
    let table = F::connections();
    let pair = table.pair(half)?;
    // A frontend's connection to a backend at the frontend's own address has but this one tuple.
    let is_own = replaced.is_some_and(|replaced| replaced.index == pair.forward.index);
    // A packet may pass more than one hook: this is the connection's own SYN, translated.
    if is_tcp && !is_own && table.may_have_begun_with(&pair, packet.signal.number()) {
        return None;
    }
    // A datagram's other connection is found for certain only if it is a service's with its client's own address.
    if !is_tcp && (!half.meta.keeps_client() || conntrack::is_direct::<F>(&pair.forward)) {
        return None;
    }
    if is_own || table.has_ended(&pair, now()) {
        conntrack::forget::<F>(&half);
        return None;
    }
    // It would be found to have the tuple already, and followed.
    if let Some(replaced) = replaced {
        conntrack::forget::<F>(replaced);
    }
    let opener = open_direct(packet, 0, false, Source::<F>::NO_PORT, translated)?;
    // A datagram is looked up as this one was.
    if is_tcp && let Some(direct) = DIRECT.get_ptr_mut(0) {
        // SAFETY: a byte, which is only ever set to this.
        unsafe { (&raw mut (*direct)[0]).write_volatile(1) };
    }
    Some(opener)
}

/// Ends a connection whose tuple another one gets. Returns the source port that the other one must not
/// get, as [`Source::avoided`]: there the backend has a connection that is not ours.
#[inline(always)]
pub(crate) fn give_up<F: Open>(replaced: &Half) -> u32 {
    let avoided = if conntrack::was_mistaken::<F>(replaced) {
        F::connections().source_port(replaced).into()
    } else {
        Source::<F>::NO_PORT
    };
    conntrack::forget::<F>(replaced);
    avoided
}

/// Opens a connection of a packet that goes to a backend itself: from its own source port if it `keeps_port` and
/// no other connection has that, else from another one than its own and `avoided`. `generation` is 0, or
/// [`OF_HOST`](conntrack::OF_HOST).
#[inline(always)]
pub(crate) fn open_direct<F: Open>(
    packet: &Packet<F>,
    generation: u16,
    keeps_port: bool,
    avoided: u32,
    translated: &mut Tuple<F>,
) -> Option<Opener> {
    let client = packet.tuple;
    let destination = Destination {
        address: &client.destination,
        port: client.destination_port,
        backend: conntrack::NO_BACKEND,
        generation,
        service: 0,
    };
    let source = Source {
        address: &client.source,
        keeps_port,
        avoided,
    };
    open(packet, &destination, &source, translated).ok()
}

/// Returns whether the packet's connection to a frontend with this cell goes on to `backend` from its client's
/// own address, through the stack.
#[inline(always)]
pub(crate) fn keeps_source<F: Tables>(
    packet: &Packet<F>,
    cell: Cell,
    backend: &Backend<F>,
) -> bool {
    backend.address != packet.tuple.source
        && !is_masqueraded(cell)
        && comes_back(packet, cell, backend)
}

/// As [`keeps_source`], as far as it is known without the packet. Nothing but speed depends on it.
#[inline(always)]
pub(crate) fn is_likely_to_keep_source<F: Tables>(
    client: &F::Address,
    backend: &Backend<F>,
) -> bool {
    backend.address != *client
        && !masquerades_all()
        && (backend.flags & Backend::<F>::LOCAL != 0 || is_on_this_node::<F>(client))
}

/// Returns whether connections to a frontend with this cell go on from this node, though their replies would
/// come back by themselves.
#[inline(always)]
fn is_masqueraded(cell: Cell) -> bool {
    masquerades_all() && cell.has(Cell::CLUSTER_IP)
}

/// Returns whether the backend's replies come back through this node by themselves. A backend that may have other ways
/// out ([`Cell::MASQUERADE`]) has them to clients elsewhere. Where the cluster's range
/// is all that is known of pods, a pod that asks a ClusterIP is on this node: others ask their own
/// nodes. One that asks another address may be anywhere.
#[inline(always)]
fn comes_back<F: Tables>(packet: &Packet<F>, cell: Cell, backend: &Backend<F>) -> bool {
    let client = &packet.tuple.source;
    backend.flags & Backend::<F>::LOCAL != 0 && !cell.has(Cell::MASQUERADE)
        || is_client_here::<F>(client, packet.interface)
        || cell.has(Cell::CLUSTER_IP) && is_of_cluster_pod::<F>(client)
}

/// The source address with which the packet's connection to a frontend with this cell goes on to
/// `backend`.
///
/// It is the client's own wherever the replies come back through this node by themselves. A pod
/// of this node that reaches itself gets the hairpin address, since it would not take a packet from
/// its own. A connection from outside to a backend on another node goes on from this node (SNAT),
/// also if that backend is the client: it has no way to the hairpin address. `Err` is why it cannot.
#[inline(always)]
fn source_for<F: Tables>(
    packet: &Packet<F>,
    cell: Cell,
    backend: &Backend<F>,
) -> Result<F::Address, Counter> {
    let client = packet.tuple.source;
    if comes_back(packet, cell, backend) {
        if backend.address == client {
            return Ok(F::hairpin_ip());
        }
        if !is_masqueraded(cell) {
            return Ok(client);
        }
    }
    paths::source_to::<F>(&backend.address).ok_or(Counter::DropNoNodeIp)
}
