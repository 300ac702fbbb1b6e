//! Connections of this node's own that go out from the address that SNAT gives, too: of pods that the
//! host's rules masquerade, or of the host's sockets.
//!
//! The host chooses their source ports without us, and we ours without it. Where both go to one backend from
//! one port, the backend would have one connection of the two. So a packet of the host's that has
//! the source of a connection of ours gets another source port where it goes out, behind the host's rules, and its
//! replies get the host's back where they come in, before them.
//!
//! The other way round a connection of ours begins at a port at which the host has one. Then the
//! backend answers the SYN as [`conntrack::is_mistaken`] describes. The answer goes on to the host; the client's next
//! SYN gets another port. A datagram of the host's gives way as above.
//!
//! What goes out from a frontend's address and port is remembered too, see [`own_flow`].

use shunt_common::{Counter, TCP, Tuple, connections::Room};

use crate::{
    maps::{
        clock::now,
        constants::REPLY_PORTS,
        counters::count,
        guarded::Filtered,
        tables::{DIRECT, Tables},
    },
    nat::{
        conntrack,
        create::{give_up, open_direct},
        open::{Open, Source},
        own_flow::{self, Port},
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// Returns whether a packet with this source may have the source that a connection of ours was given; the
/// port is in network order. False of nearly all that may not.
#[inline(always)]
pub(crate) fn may_clash<F: Tables>(source: &F::Address, port: u16) -> bool {
    REPLY_PORTS.load().contains(port) && Filtered::of::<F>(source).is_source()
}

/// Kinds of sources that a packet of the host's own may have, besides that.
#[derive(Clone, Copy)]
pub(crate) struct Origin {
    /// That of a connection of ours, by [`may_clash`].
    pub may_clash: bool,
    /// A frontend's.
    pub is_frontend: bool,
    /// A socket of this host's.
    pub is_socket: bool,
}

/// Puts the tuple that a packet of the host's own goes out with into `translated`; returns whether its connection is
/// remembered. One that is none of the host's is left alone.
#[inline(always)]
pub(crate) fn at_egress<F: Open>(
    packet: &Packet<F>,
    origin: Origin,
    translated: &mut Tuple<F>,
) -> bool {
    let known = conntrack::find(packet, Wanted::Forward);
    if let Some(half) = known {
        if !conntrack::is_direct::<F>(&half) {
            return false;
        }
        if !(packet.may_be_first && conntrack::is_replaced(packet, &half))
            && conntrack::follow(packet, half, translated)
        {
            return true;
        }
    }
    if packet.is_error() || !packet.may_be_first && !origin.is_frontend {
        return false;
    }
    let avoided = known.as_ref().map_or(Source::<F>::NO_PORT, give_up::<F>);
    let other = conntrack::find(packet, Wanted::Answer);
    let gives_way =
        origin.may_clash && packet.may_be_first && other.is_some_and(|half| clashes(packet, half));
    let port = if gives_way {
        Port::Changed
    } else if origin.is_frontend {
        own_flow::port_of(packet, origin.is_socket, other.is_some())
    } else {
        Port::Untold
    };
    if port == Port::Untold
        || open_direct(
            packet,
            conntrack::OF_HOST,
            port == Port::Kept,
            avoided,
            translated,
        )
        .is_none()
    {
        return false;
    }
    if let Some(direct) = DIRECT.get_ptr_mut(0) {
        // SAFETY: bytes, which are only ever set to this.
        unsafe {
            (&raw mut (*direct)[1]).write_volatile(1);
            if origin.is_frontend {
                (&raw mut (*direct)[2]).write_volatile(1);
            }
        }
    }
    count(Counter::Connection);
    true
}

/// Returns whether the connection of this reply half is another one than the packet's, and stays.
#[inline(always)]
fn clashes<F: Open>(packet: &Packet<F>, half: Half) -> bool {
    let table = F::connections();
    let Some(pair) = table.pair(half) else {
        return false;
    };
    // Of a socket of this node's that uses a service.
    if pair.reply.meta.keeps_client() {
        return false;
    }
    // A packet may pass more than one hook: this is the connection's own SYN, translated.
    if packet.protocol == TCP && table.may_have_begun_with(&pair, packet.signal.number()) {
        return false;
    }
    if table.room(&pair, now()) == Room::Expired {
        conntrack::forget::<F>(&half);
        return false;
    }
    true
}
