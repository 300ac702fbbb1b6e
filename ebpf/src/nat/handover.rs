//! Connections while an earlier agent hands them over: its table beside ours.
//!
//! As long as a hook may have a program of that agent, its table decides: it is looked at first and
//! written first, and ours follows it. Afterwards ours decides, and until no program is at a packet
//! that it began before, a connection is entered into both. See `docs/upgrade.md`.

use shunt_common::{
    V4, V6,
    connections::{
        Connection, Facts, Key, Link, Memory as _, Meta, Refused, Role, Room, Slot as _, Times,
        place,
    },
    registry::handover::Phase,
};

use crate::{
    maps::{
        clock::now,
        handover::{Carrier, is_any, is_going_on, phase},
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

/// Returns whether the other table has a connection with this key of a reply.
#[inline(always)]
pub(crate) fn has_before<F: Handover>(reply: &Key<F>) -> bool {
    if !is_going_on() {
        return false;
    }
    let table = F::resized();
    // A connection whose time is over gives way, see `clear_before`.
    let is_over = |pair| table.room(&pair, now()) == Room::Expired;
    table
        .find_half(reply)
        .is_some_and(|half| !table.pair(half).is_some_and(is_over))
}

/// Enters a connection into the other table; returns whether no other one has its reply's tuple there.
///
/// Once ours decides, one for which the other table has no room is entered into ours alone: an agent
/// that died before the end of its handover leaves no process that makes room there.
#[inline(always)]
pub(crate) fn enter_before<F: Handover>(connection: &Connection<F>) -> bool {
    if !is_going_on() {
        return true;
    }
    let refused = F::Resized::open(&F::resized(), connection, now());
    refused == ENTERED || refused == FULL && phase() != SWAPPING
}

/// Ends what has a tuple of the connection in the other table and has none in ours: ours has forgotten it by
/// itself when its time was over, or had no place for it just now. Returns whether there may have been such.
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
/// takes from ours what is not right. Returns what is left to be done.
///
/// Packets that only our programs see count in our table alone: what both have is right for as long as either
/// remembers it.
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
    let is_known = recall_from_resized(key, carrier);
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
    // There its time may be over, which ends it: the packet begins another one, in both tables.
    if !is_known || F::resized().lookup(key, false, now()).is_none() {
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

/// Reads the connection with this key from a table of another size into `carrier`.
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
    snapshot.connection.seen =
        pair.forward.meta.seen() & (Meta::OPENED | Meta::ASSURED | Meta::RULED);
    snapshot.forward.bits = pair.forward.meta.seen();
    snapshot.forward.last = Times(pair.forward.slot.load(place::TIMES)).last_seen();
    snapshot.reply.bits = pair.reply.meta.seen();
    snapshot.reply.last = Times(pair.reply.slot.load(place::TIMES)).last_seen();
    snapshot.mark = Facts(pair.reply.slot.load(place::FACTS)).mark();
    true
}

/// See [`clear_before`].
#[inline(always)]
fn clear_there<F: Handover>(connection: &Connection<F>) {
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
    let forward = &mut carrier.snapshot.connection.forward;
    *forward = Key::of_slot(pair.forward.slot);
    let table = F::resized();
    if let Some(half) = table.find_half(forward) {
        F::Resized::forget(&table, half.index, half.meta.0);
    }
}

/// Makes a family's subprograms, which the verifier looks at by themselves.
macro_rules! handover {
    ($family:ty: $recall:ident, $absorb:ident, $clear:ident, $withdraw:ident) => {
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
        extern "C" fn $withdraw(index: u32, meta: u64) -> u32 {
            withdraw_here::<$family>(index, meta);
            0
        }
    };
}

handover!(V4: recall_v4, absorb_v4, clear_before_v4, withdraw_v4);
handover!(V6: recall_v6, absorb_v6, clear_before_v6, withdraw_v6);
