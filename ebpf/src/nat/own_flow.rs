//! Connections of this node's own that go out from a frontend's address and port: of pods that the host's
//! rules masquerade, or of the host's sockets.
//!
//! Their answers come for the frontend, as packets of its clients do. So such a connection is entered where it
//! goes out, as one that goes on as it is, and what answers it goes on to the stack.
//!
//! A packet of the other end's may have come first: the connection is older than the frontend, or than the
//! table. Then that end has a connection to the frontend's backend, which no client asked for. It makes room as
//! far as it can be distinguished from a client's own; where it cannot, this node's new connection gets another
//! source port, as in [`crate::nat::masquerade`].

use shunt_common::{
    Guarded, SCTP, TCP, V4, V6,
    connections::{Meta, Signal, Slot as _, Times, place},
    port_group,
    variables::FRONTEND_PORTS,
};

use crate::{
    maps::{
        addresses::is_own, clock::now, guarded::Filtered, handover::is_going_on, tables::Tables,
        variables::VARIABLES,
    },
    nat::{
        conntrack::{self, Find},
        handover::Handover,
        netfilter,
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// Maximum age in ticks of a backend's packet that may be at a second hook.
const JUST_NOW: u32 = 1;

/// Outcome for the source port of a connection of this node's own that is not known yet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Port {
    /// The connection keeps it.
    Kept,
    /// Another connection has it.
    Changed,
    /// The packet is left alone: it is of no such connection, or that is not known.
    Untold,
}

/// Returns whether a packet from this address and port, network order, may come from a frontend's. False of nearly all
/// that do not.
#[inline(always)]
pub(crate) fn may_come_from_frontend<F: Tables>(source: &F::Address, port: u16) -> bool {
    VARIABLES
        .get(FRONTEND_PORTS)
        .is_some_and(|ports| *ports & port_group(port) != 0)
        && Filtered::of::<F>(source).has_frontends()
}

/// A family with the subprogram that knows such a connection's answers.
pub(crate) trait OwnFlow: Find {
    /// [`is_answered_by_here`]; 0: no.
    fn is_answered_by(index: u32, meta: u64, signal: u64) -> u32;
}

/// Returns whether the packet, which comes in and has this reply half, is of such a connection, which learns from
/// it. After its end, a host that begins another is a frontend's client.
#[inline(always)]
pub(crate) fn is_answered_by<F: OwnFlow>(packet: &Packet<F>, half: &Half) -> bool {
    let signal = if packet.is_error() {
        ERROR
    } else {
        packet.signal.0
    };
    half.meta.keeps_client() && F::is_answered_by(half.index, half.meta.0, signal) != 0
}

/// A signal that no segment has.
const ERROR: u64 = u64::MAX;

#[inline(always)]
fn is_answered_by_here<F: Handover>(index: u32, meta: u64, signal: u64) -> bool {
    let Some(half) = F::connections().at(index, Meta(meta).version()) else {
        return false;
    };
    if !conntrack::is_of_direct::<F>(half) {
        return false;
    }
    if signal == ERROR {
        return true;
    }
    let signal = Signal(signal);
    if signal.opens() && conntrack::has_ended::<F>(half) {
        conntrack::forget::<F>(&half);
        return false;
    }
    // A half that is lost comes back where the connection goes out: here the stack has no room for that.
    let Some(hit) = F::connections().read(half) else {
        return false;
    };
    F::connections().observe(&hit, signal, now());
    true
}

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! own_flow {
    ($family:ty: $is_answered_by:ident) => {
        impl OwnFlow for $family {
            #[inline(always)]
            fn is_answered_by(index: u32, meta: u64, signal: u64) -> u32 {
                $is_answered_by(index, meta, signal)
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $is_answered_by(index: u32, meta: u64, signal: u64) -> u32 {
            is_answered_by_here::<$family>(index, meta, signal).into()
        }
    };
}

own_flow!(V4: is_own_answered_by_v4);
own_flow!(V6: is_own_answered_by_v6);

/// Finds out what becomes of the source port of a packet from a frontend's address and port, which is of no
/// connection that is known. Makes room for it. `is_of_socket`: a socket of this host's has sent the packet;
/// `is_taken`: a connection of ours has its source towards its destination.
#[inline(always)]
pub(crate) fn port_of<F: Find>(packet: &Packet<F>, is_of_socket: bool, is_taken: bool) -> Port {
    // Nothing is left to answer a reset. While netfilter translates, this may be its backend's reply.
    if packet.signal.resets() || netfilter::may_translate() {
        return Port::Untold;
    }
    // A key of its own: see the guard.
    let source = packet.tuple.source;
    let is_own = is_own::<F>(&source);
    if !is_of_socket && !is_own && !is_of_host::<F>(&source) {
        return Port::Untold;
    }
    // What follows the first packet has to keep its port.
    let may_change = packet.may_be_first && is_own;
    if is_taken && !may_change {
        return Port::Untold;
    }
    let Some(half) = conntrack::find(packet, Wanted::Client) else {
        return Port::Kept;
    };
    match purpose_of::<F>(half, is_of_socket) {
        Purpose::Unasked => {
            conntrack::forget::<F>(&half);
            Port::Kept
        }
        Purpose::Client if may_change => Port::Changed,
        Purpose::Client | Purpose::Unclear => Port::Untold,
    }
}

/// Returns whether the address is a service's and one of the host's.
#[inline(always)]
fn is_of_host<F: Tables>(address: &F::Address) -> bool {
    // SAFETY: a word, written and replaced whole.
    let number = unsafe { F::guarded().get(address) }.copied();
    number == Some(Guarded::Host as u32)
}

/// Purpose of the connection to the frontend that the other end of a packet has.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Nothing: what opened it answered a connection of this node's own.
    Unasked,
    /// Its client uses the service.
    Client,
    /// The packet may be its reply, at a second hook.
    Unclear,
}

/// That of the connection of this forward half.
#[inline(always)]
fn purpose_of<F: Tables>(half: Half, is_of_socket: bool) -> Purpose {
    if conntrack::is_direct::<F>(&half) {
        return Purpose::Unclear;
    }
    let is_assured = half.meta.has(Meta::ASSURED);
    if matches!(half.meta.protocol(), TCP | SCTP) {
        // No client begins one without a SYN, and no backend answers that.
        return if half.meta.has(Meta::OPENED) || is_assured {
            Purpose::Client
        } else {
            Purpose::Unasked
        };
    }
    // A reply carries a mark, unless programs of an earlier agent have translated it.
    if is_of_socket && !is_going_on() {
        return Purpose::Unasked;
    }
    let Some(pair) = F::connections().pair(half) else {
        return Purpose::Unclear;
    };
    let heard = Times(pair.reply.slot.load(place::TIMES));
    if pair.reply.meta.has(Meta::REPLIED) && heard.idle(now()) <= JUST_NOW {
        Purpose::Unclear
    } else if is_assured {
        Purpose::Client
    } else {
        Purpose::Unasked
    }
}
