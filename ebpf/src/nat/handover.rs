//! Connections while an earlier agent hands them over: its table beside ours.
//!
//! As long as a hook may have a program of that agent, its table decides: it is looked at first and
//! written first, and ours follows it. Afterwards ours decides, and until no program is at a packet
//! that it began before, a connection is entered into both. See `docs/upgrade.md`.

#![expect(
    clippy::needless_borrows_for_generic_args,
    reason = "a key or an entry passed by value would be copied to the stack"
)]

use aya_ebpf::bindings::{BPF_ANY, BPF_NOEXIST};
use shunt_common::{
    ConntrackKey, Direction, V4, V6,
    connections::{
        Connection, Facts, Key, Link, Memory as _, Meta, Refused, Role, Room, Slot as _, Times,
        place,
    },
    registry::handover::Phase,
    version_3::ConntrackEntry,
};

use crate::{
    maps::{
        clock::now,
        handover::{Carrier, PREVIOUS_CLOCK, is_any, is_going_on, is_of_hashes, phase},
        tables::Tables,
    },
    nat::wanted::{Half, Wanted},
    packet::parsed::Packet,
};

const NONE: u32 = Phase::None as u32;
const SWAPPING: u32 = Phase::Swapping as u32;

/// The connection is in the other table.
const ENTERED: u32 = 0;
/// There is no room for it.
const FULL: u32 = Refused::Full as u32;
/// Somebody has its reply's tuple.
const EXISTS: u32 = Refused::Exists as u32;

/// What a hash that is full says, `-E2BIG`.
const NO_ROOM: i32 = -7;

/// Our table is right.
const NOTHING: u32 = 0;
/// Our table has the carrier's connection, which may have seen more.
const OPENED: u32 = 1;
/// Our table does not have the carrier's connection.
const UNOPENED: u32 = 2;

/// A family with its subprograms. They are called one after the other, not one by the other: the
/// stack has no room for that.
pub(crate) trait Handover: Tables {
    /// [`recall_here`].
    fn recall(key: &Key<Self>) -> u32;
    /// [`absorb_here`].
    fn absorb();
    /// [`clear_there`].
    fn clear(connection: &Connection<Self>);
    /// [`into_hash`].
    fn enter_into_hash(connection: &Connection<Self>) -> u32;
    /// [`withdraw_here`].
    fn withdraw(index: u32, meta: u64);
}

/// Makes our table have what the other one has of the packet's connection, where that one decides.
#[inline(always)]
pub(crate) fn follow<F: Handover>(packet: &Packet<F>, wanted: Wanted) {
    if !is_any() {
        return;
    }
    let Some(carrier) = carrier::<F>() else {
        return;
    };
    let key = &mut carrier.sought;
    *key = Key::new(&packet.tuple, packet.protocol, Role::Forward);
    wanted.change(key);
    let recalled = F::recall(key);
    if recalled == NOTHING {
        return;
    }
    // Our table has as much room as the other one. If it is full all the same, the packet's
    // connection is unknown, as one for which there was no room.
    if recalled == OPENED
        || F::Memory::open(&F::connections(), &carrier.snapshot.connection, now()) == 0
    {
        F::absorb();
    }
}

/// Whether the other table has a connection with this key of a reply.
#[inline(always)]
pub(crate) fn has_before<F: Handover>(reply: &Key<F>) -> bool {
    if !is_going_on() {
        return false;
    }
    if !is_of_hashes() {
        let table = F::resized();
        // Whose time is over gives way, see `clear_before`.
        let is_over = |pair| table.room(&pair, now()) == Room::Expired;
        return table
            .find_half(reply)
            .is_some_and(|half| !table.pair(half).is_some_and(is_over));
    }
    let Some(carrier) = carrier::<F>() else {
        return false;
    };
    carrier.reply = ConntrackKey::new(reply.tuple(), reply.protocol(), Direction::Reply);
    // SAFETY: the entry is not read.
    unsafe { F::previous().get(&carrier.reply) }.is_some()
}

/// Enters a connection into the other table; gives whether nobody has its reply's tuple there.
///
/// Once ours decides, one for which the other table has no room is entered into ours alone: an agent
/// that died before the end of its handover leaves nobody who makes room there.
#[inline(always)]
pub(crate) fn enter_before<F: Handover>(connection: &Connection<F>) -> bool {
    if !is_going_on() {
        return true;
    }
    // By the caller itself, not by a subprogram between them: the stack has no room for one more.
    let refused = if is_of_hashes() {
        F::enter_into_hash(connection)
    } else {
        F::Resized::open(&F::resized(), connection, now())
    };
    refused == ENTERED || refused == FULL && phase() != SWAPPING
}

/// Ends what has a tuple of the connection in the other table and has none in ours: ours has forgotten it by
/// itself when its time was over, or had no place for it just now. Gives whether there may have been such.
#[inline(always)]
pub(crate) fn clear_before<F: Handover>(connection: &Connection<F>) -> bool {
    if is_any() {
        F::clear(connection);
    }
    is_any()
}

/// Removes the connection of this half from the other table.
#[inline(always)]
pub(crate) fn withdraw<F: Handover>(half: &Half) {
    if is_any() {
        F::withdraw(half.index, half.meta.0);
    }
}

#[inline(always)]
fn carrier<F: Tables>() -> Option<&'static mut Carrier<F>> {
    // SAFETY: this CPU's own, and no other packet is in its programs before this one is through.
    F::carriers().get_ptr_mut(0).map(|at| unsafe { &mut *at })
}

/// Compares what our table has of this key with what the other one has, where that one decides, and
/// takes from ours what is not right. Gives what is left to be done.
#[inline(always)]
fn recall_here<F: Handover>(key: &Key<F>) -> u32 {
    let phase = phase();
    if phase == NONE {
        return NOTHING;
    }
    let ours = F::connections();
    if phase != SWAPPING && ours.find_half(key).is_some() {
        return NOTHING;
    }
    let Some(carrier) = carrier::<F>() else {
        return NOTHING;
    };
    let is_known = if is_of_hashes() {
        recall_from_hash(key, carrier)
    } else {
        recall_from_resized(key, carrier)
    };
    let connection = &carrier.snapshot.connection;
    if let Some(half) = ours.find_half(key) {
        if is_known
            && let Some(pair) = ours.pair(half)
            && connection.forward.is_at(pair.forward.slot)
            && connection.reply.is_at(pair.reply.slot)
        {
            return OPENED;
        }
        F::Memory::forget(&ours, half.index, half.meta.0);
    }
    if !is_known {
        return NOTHING;
    }
    let other = match key.role() {
        Role::Forward => &connection.reply,
        Role::Reply => &connection.forward,
    };
    if let Some(half) = ours.find_half(other) {
        F::Memory::forget(&ours, half.index, half.meta.0);
    }
    UNOPENED
}

/// Has our connection learn what the carrier's has seen.
#[inline(always)]
fn absorb_here<F: Tables>() {
    if let Some(carrier) = carrier::<F>() {
        F::connections().absorb(&carrier.snapshot);
    }
}

/// What a table of another size has of the connection with this key.
#[inline(always)]
fn recall_from_resized<F: Tables>(key: &Key<F>, carrier: &mut Carrier<F>) -> bool {
    let table = F::resized();
    let Some(half) = table.find_half(key) else {
        return false;
    };
    let Some(pair) = table.pair(half) else {
        return false;
    };
    let snapshot = &mut carrier.snapshot;
    let facts = Facts(pair.forward.slot.load(place::FACTS));
    snapshot.connection.forward = Key::of_slot(pair.forward.slot);
    snapshot.connection.reply = Key::of_slot(pair.reply.slot);
    snapshot.connection.backend = facts.backend();
    snapshot.connection.service = facts.service();
    snapshot.connection.generation = Link(pair.forward.slot.load(place::LINK)).generation();
    snapshot.connection.seen = pair.forward.meta.seen() & (Meta::OPENED | Meta::ASSURED);
    snapshot.forward.bits = pair.forward.meta.seen();
    snapshot.forward.last = Times(pair.forward.slot.load(place::TIMES)).last_seen();
    snapshot.reply.bits = pair.reply.meta.seen();
    snapshot.reply.last = Times(pair.reply.slot.load(place::TIMES)).last_seen();
    snapshot.mark = Facts(pair.reply.slot.load(place::FACTS)).mark();
    true
}

/// What a hash has of the connection with this key: its original direction's entry, and what was
/// seen of the reply's.
#[inline(always)]
fn recall_from_hash<F: Tables>(key: &Key<F>, carrier: &mut Carrier<F>) -> bool {
    let Carrier {
        snapshot,
        original,
        reply,
        ..
    } = carrier;
    let protocol = key.protocol();
    *original = ConntrackKey::new(key.tuple(), protocol, Direction::Original);
    if key.role() == Role::Reply {
        *reply = ConntrackKey::new(key.tuple(), protocol, Direction::Reply);
        // SAFETY: an entry stays one of its table; see the module's documentation for what happens
        // if it is removed meanwhile.
        let Some(entry) = (unsafe { F::previous().get(&*reply) }) else {
            return false;
        };
        original.tuple.set_reversed(&entry.translated);
    }
    // SAFETY: as above.
    let Some(entry) = (unsafe { F::previous().get(&*original) }) else {
        return false;
    };
    let replies = entry.translated.reversed();
    // A client that uses its port elsewhere has left the reply's entry behind.
    if key.role() == Role::Reply && replies != reply.tuple {
        return false;
    }
    *reply = ConntrackKey::new(replies, protocol, Direction::Reply);
    // SAFETY: as above.
    let seen = match unsafe { F::previous().get(&*reply) } {
        Some(reply) if reply.translated.reversed() == original.tuple => reply.seen,
        _ => 0,
    };
    (snapshot.forward.bits, snapshot.reply.bits) =
        ConntrackEntry::<F>::halves(protocol, entry.seen, seen);
    let connection = &mut snapshot.connection;
    connection.forward = Key::new(&original.tuple, protocol, Role::Forward);
    connection.reply = Key::new(&replies, protocol, Role::Reply);
    connection.backend = entry.backend;
    connection.service = 0;
    connection.generation = entry.generation;
    connection.seen = snapshot.forward.bits & (Meta::OPENED | Meta::ASSURED);
    snapshot.forward.last = now();
    snapshot.reply.last = snapshot.forward.last;
    let is_opened = connection.seen & Meta::OPENED != 0;
    snapshot.mark = if is_opened { 0 } else { snapshot.forward.last };
    true
}

/// [`clear_before`], of a table of another size. An entry of a hash gives way as it is.
#[inline(always)]
fn clear_there<F: Handover>(connection: &Connection<F>) {
    if is_of_hashes() {
        return;
    }
    let table = F::resized();
    if F::connections().find_half(&connection.forward).is_none()
        && let Some(half) = table.find_half(&connection.forward)
    {
        F::Resized::forget(&table, half.index, half.meta.0);
    }
    if let Some(half) = table.find_half(&connection.reply)
        && let Some(pair) = table.pair(half)
        && table.has_ended(&pair, now())
    {
        F::Resized::forget(&table, half.index, half.meta.0);
    }
}

/// Enters a connection's two entries into a hash; gives [`ENTERED`], or why that cannot be.
#[inline(always)]
fn into_hash<F: Tables>(connection: &Connection<F>) -> u32 {
    let Some(carrier) = carrier::<F>() else {
        return EXISTS;
    };
    let Carrier {
        original,
        reply,
        entry,
        ..
    } = carrier;
    let protocol = connection.forward.protocol();
    let (client, replies) = (connection.forward.tuple(), connection.reply.tuple());
    *original = ConntrackKey::new(client, protocol, Direction::Original);
    *reply = ConntrackKey::new(replies, protocol, Direction::Reply);
    entry.backend = connection.backend;
    entry.generation = connection.generation;
    entry.last_seen = PREVIOUS_CLOCK.load();
    entry.padding = 0;
    let keeps = if connection.keeps_client() {
        ConntrackEntry::<F>::KEEPS_CLIENT
    } else {
        0
    };
    entry.translated = client.reversed();
    entry.seen = keeps;
    entry.address_change = replies.address_difference(&entry.translated).fold();
    entry.port_change = replies.port_difference(&entry.translated).fold();
    if let Err(error) = F::previous().insert(&*reply, &*entry, BPF_NOEXIST.into()) {
        return refusal(error);
    }
    entry.translated = replies.reversed();
    entry.seen = keeps | ConntrackEntry::<F>::PACKET;
    entry.address_change = entry.address_change.undone();
    entry.port_change = entry.port_change.undone();
    if let Err(error) = F::previous().insert(&*original, &*entry, BPF_ANY.into()) {
        let _ = F::previous().remove(&*reply);
        return refusal(error);
    }
    ENTERED
}

/// Why a hash refuses an entry.
#[inline(always)]
const fn refusal(error: i32) -> u32 {
    if error == NO_ROOM { FULL } else { EXISTS }
}

#[inline(always)]
fn withdraw_here<F: Tables>(index: u32, meta: u64) {
    if phase() == NONE {
        return;
    }
    let Some(half) = F::connections().at(index, Meta(meta).version()) else {
        return;
    };
    let Some(pair) = F::connections().pair(half) else {
        return;
    };
    let Some(carrier) = carrier::<F>() else {
        return;
    };
    let connection = &mut carrier.snapshot.connection;
    connection.forward = Key::of_slot(pair.forward.slot);
    connection.reply = Key::of_slot(pair.reply.slot);
    if !is_of_hashes() {
        let table = F::resized();
        if let Some(half) = table.find_half(&connection.forward) {
            F::Resized::forget(&table, half.index, half.meta.0);
        }
        return;
    }
    let protocol = connection.forward.protocol();
    carrier.original = ConntrackKey::new(connection.forward.tuple(), protocol, Direction::Original);
    carrier.reply = ConntrackKey::new(connection.reply.tuple(), protocol, Direction::Reply);
    let _ = F::previous().remove(&carrier.original);
    let _ = F::previous().remove(&carrier.reply);
}

/// Makes a family's subprograms, which the verifier looks at by themselves.
macro_rules! handover {
    ($family:ty: $recall:ident, $absorb:ident, $clear:ident, $enter:ident, $withdraw:ident) => {
        impl Handover for $family {
            #[inline(always)]
            fn recall(key: &Key<Self>) -> u32 {
                $recall(key)
            }

            #[inline(always)]
            fn absorb() {
                $absorb();
            }

            #[inline(always)]
            fn clear(connection: &Connection<Self>) {
                $clear(connection);
            }

            #[inline(always)]
            fn enter_into_hash(connection: &Connection<Self>) -> u32 {
                $enter(connection)
            }

            #[inline(always)]
            fn withdraw(index: u32, meta: u64) {
                $withdraw(index, meta);
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $recall(key: *const Key<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            match unsafe { key.as_ref() } {
                Some(key) => recall_here(key),
                None => NOTHING,
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $absorb() -> u32 {
            absorb_here::<$family>();
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $clear(connection: *const Connection<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            if let Some(connection) = unsafe { connection.as_ref() } {
                clear_there(connection);
            }
            0
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $enter(connection: *const Connection<$family>) -> u32 {
            // SAFETY: null, or the reference that the only caller has.
            match unsafe { connection.as_ref() } {
                Some(connection) => into_hash(connection),
                None => EXISTS,
            }
        }

        #[unsafe(no_mangle)]
        #[inline(never)]
        extern "C" fn $withdraw(index: u32, meta: u64) -> u32 {
            withdraw_here::<$family>(index, meta);
            0
        }
    };
}

handover!(V4: recall_v4, absorb_v4, clear_before_v4, enter_into_hash_v4, withdraw_v4);
handover!(V6: recall_v6, absorb_v6, clear_before_v6, enter_into_hash_v6, withdraw_v6);
