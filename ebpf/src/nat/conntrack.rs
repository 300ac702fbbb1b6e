//! Connection tracking: a connection keeps the backend that its first packet got.

use shunt_common::{
    TCP, Tuple, V4, V6,
    connections::{Facts, Key, Memory as _, Meta, Role, Signal, Slot as _, place},
};

use crate::{
    maps::{addresses::is_own, backends, clock::now, tables::Tables},
    nat::{
        handover::{self, Handover},
        mend::{Mend, mend},
        wanted::{Half, Wanted},
    },
    packet::parsed::Packet,
};

/// A family with the subprogram that finds its packets' connections.
pub(crate) trait Find: Mend {
    /// [`search`].
    fn search(packet: &Packet<Self>, wanted: u32) -> u64;
}

/// Result of [`search`] for nothing.
const NOTHING: u64 = u64::MAX;

/// Finds the packet's connection.
#[inline(always)]
pub(crate) fn find<F: Find>(packet: &Packet<F>, wanted: Wanted) -> Option<Half> {
    handover::follow(packet, wanted);
    match F::search(packet, wanted as u32) {
        NOTHING => None,
        found => F::connections().at(found as u32, (found >> 32) as u32),
    }
}

/// Returns the index of the half and, in the upper half of the word, which use of its slot that is.
#[inline(always)]
fn search<F: Handover>(packet: &Packet<F>, wanted: u32) -> u64 {
    let Packet {
        tuple, protocol, ..
    } = packet;
    let mut own = Key::new(tuple, *protocol, Role::Forward);
    let Some(key) = F::sought(&mut own) else {
        return NOTHING;
    };
    let wanted = match wanted {
        0 => Wanted::Forward,
        1 => Wanted::Reply,
        2 => Wanted::Answer,
        _ => Wanted::Client,
    };
    wanted.change(key);
    match F::connections().lookup(key, packet.signal.opens(), now()) {
        Some(half) => u64::from(half.index) | u64::from(half.meta.version()) << 32,
        None => NOTHING,
    }
}

/// Makes a family's subprogram, which the verifier looks at by itself.
macro_rules! searching {
    ($family:ty: $search:ident) => {
        impl Find for $family {
            #[inline(always)]
            fn search(packet: &Packet<Self>, wanted: u32) -> u64 {
                $search(packet, wanted)
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $search(packet: *const Packet<$family>, wanted: u32) -> u64 {
            // SAFETY: null, or the reference that the only caller has.
            match unsafe { packet.as_ref() } {
                Some(packet) => search(packet, wanted),
                None => NOTHING,
            }
        }
    };
}

searching!(V4: connection_v4);
searching!(V6: connection_v6);

/// Puts the tuple that the packet goes on with into `translated`, and has the connection learn from
/// the packet. Returns whether the connection is still there.
#[inline(always)]
pub(crate) fn follow<F: Mend>(packet: &Packet<F>, half: Half, translated: &mut Tuple<F>) -> bool {
    let Some(hit) = F::connections().read(half) else {
        return false;
    };
    *translated = hit.translated();
    // A slot is given up between two packets, and if it is just now, one is counted for another service.
    packet
        .service
        .set(Facts(hit.slot.load(place::FACTS)).service());
    if !packet.is_error() {
        mend(&hit, packet.signal, now());
        F::connections().observe(&hit, packet.signal, now());
    }
    true
}

/// Returns whether a packet that may be the first of a connection begins another one than this, whose
/// tuple it has: see [`shunt_common::connections::Table::is_replaced`]. A datagram leaves a backend that is gone.
#[inline(always)]
pub(crate) fn is_replaced<F: Tables>(packet: &Packet<F>, half: &Half) -> bool {
    let is_current = is_current::<F>(half);
    if !packet.signal.opens() {
        return !is_current && packet.protocol != TCP;
    }
    let table = F::connections();
    let Some(pair) = table.pair(*half) else {
        return true;
    };
    table.is_replaced(&pair, is_current, now())
}

/// The index of a backend that is none of ours: of a connection to the backend itself.
pub(crate) const NO_BACKEND: u32 = u32::MAX;

/// Returns whether the connection's backend is still the one that it was. Of a forward half.
#[inline(always)]
pub(crate) fn is_current<F: Tables>(half: &Half) -> bool {
    F::connections()
        .backend(half)
        .is_some_and(|(index, generation)| is_backend_current::<F>(index, generation))
}

/// Returns whether a backend with this index and generation is still there; of a connection to a backend itself
/// always.
#[inline(always)]
pub(crate) fn is_backend_current<F: Tables>(index: u32, generation: u16) -> bool {
    index == NO_BACKEND || backends::is_current::<F>(index, generation)
}

/// Returns whether the connection is one to a backend itself. Of a forward half.
#[inline(always)]
pub(crate) fn is_direct<F: Tables>(half: &Half) -> bool {
    F::connections()
        .backend(half)
        .is_some_and(|(index, _)| index == NO_BACKEND)
}

/// Returns whether the connection has ended.
#[inline(always)]
pub(crate) fn has_ended<F: Tables>(half: Half) -> bool {
    let table = F::connections();
    table
        .pair(half)
        .is_some_and(|pair| table.has_ended(&pair, now()))
}

/// As [`is_direct`]. Of a reply half.
#[inline(always)]
pub(crate) fn is_of_direct<F: Tables>(half: Half) -> bool {
    F::connections()
        .pair(half)
        .is_some_and(|pair| is_direct::<F>(&pair.forward))
}

/// The generation of a connection to a backend itself that this host began, where it went out. Others began where
/// they came in.
pub(crate) const OF_HOST: u16 = 1;

/// Returns whether replies of the connection, for `client`, end at this host: it has no egress that would translate
/// them. Of a reply half.
#[inline(always)]
pub(crate) fn ends_here<F: Tables>(half: Half, client: &F::Address) -> bool {
    let Some(pair) = F::connections().pair(half) else {
        return false;
    };
    // Programs of an earlier agent have left the generation 0.
    F::connections()
        .backend(&pair.forward)
        .is_some_and(|(index, generation)| {
            index == NO_BACKEND && (generation == OF_HOST || is_own::<F>(client))
        })
}

/// Returns whether the backend has answered the connection's SYN as [`is_mistaken`] describes.
#[inline(always)]
pub(crate) fn was_mistaken<F: Tables>(half: &Half) -> bool {
    F::connections()
        .pair(*half)
        .is_some_and(|pair| pair.reply.meta.has(Meta::MISTAKEN))
}

/// Ends the connection of this half.
#[inline(always)]
pub(crate) fn forget<F: Handover>(half: &Half) {
    handover::withdraw::<F>(half);
    F::Memory::lapse(&F::connections(), half.index, half.meta.0);
}

/// Returns whether the client has sent a SYN and nothing yet that acknowledges an answer to it: what the backend
/// sends may be [mistaken](is_mistaken), be its SYN-ACK once more, or be data, which the client then
/// acknowledges with the SYN-ACK (TCP Fast Open).
#[inline(always)]
pub(crate) const fn is_opening(half: &Half) -> bool {
    half.meta.protocol() == TCP && half.meta.seen() & (Meta::OPENED | Meta::ASSURED) == Meta::OPENED
}

/// Returns whether the backend's next packet may be its answer to a SYN. Of a reply half.
#[inline(always)]
pub(crate) const fn awaits_answer(half: &Half) -> bool {
    is_opening(half) || awaits_again(half)
}

/// Returns whether that SYN came in an established connection. Of a reply half.
#[inline(always)]
pub(crate) const fn awaits_again(half: &Half) -> bool {
    half.meta.has(Meta::AWAITS_SYN_ACK)
}

/// Returns whether a SYN may be answered so at first. Both sides may send a SYN (RFC 9293 section 3.5).
#[inline(always)]
pub(crate) const fn is_first_answer(signal: Signal) -> bool {
    signal.answers() || signal.opens() || signal.resets()
}

/// Returns whether a packet of the backend's is of a connection that is not ours: the first answer to
/// a SYN is a SYN-ACK or a reset, unless client and backend have a connection with the same tuple.
/// Then the next SYN goes on from another source port.
#[inline(always)]
pub(crate) fn is_mistaken<F: Tables>(packet: &Packet<F>, half: &Half) -> bool {
    if !is_opening(half) || half.meta.has(Meta::SYN_ACK) || packet.is_error() {
        return false;
    }
    if is_first_answer(packet.signal) {
        return false;
    }
    F::connections().mistake(*half);
    true
}
