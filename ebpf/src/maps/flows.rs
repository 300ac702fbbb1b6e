//! Telling what becomes of connections and packets, while somebody asks ([`is_on`]): into a ring, from which the agent reads.
//!
//! Nobody is waked for a record: the agent looks by itself, some tens of times a second. What finds no room is counted.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP},
    btf_maps::{Array, RingBuf},
    helpers::{bpf_get_prandom_u32, bpf_ktime_get_ns},
    macros::btf_map,
};
use shunt_common::{
    ConnectionRecord, Counter, EndCause, FlowControl, FlowHead, FlowKind, PACKET_BYTES,
    PacketRecord,
    connections::{Connection, Facts, Half, Memory, Meta, Role, Slot as _, Table, Wide, place},
    sample,
};

use crate::{
    ctx::access::Access,
    maps::{atomic::add_one, constants::TELLS_FLOWS},
};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// The records. A default that the agent overrides in programs that write any.
#[btf_map]
pub(crate) static FLOW_EVENTS: RingBuf<u64, 4096> = RingBuf::new();

/// What is told, one entry.
#[btf_map]
pub(crate) static FLOW_CONTROL: Array<FlowControl, 1, MMAPABLE> = Array::new();

/// Whether anything is told; if not, the verifier removes all that follows from it.
#[inline(always)]
pub(crate) fn is_on() -> bool {
    TELLS_FLOWS.load() != 0
}

/// What is told, if this kind is.
#[inline(always)]
fn control(kind: FlowKind) -> Option<*mut FlowControl> {
    if !is_on() {
        return None;
    }
    let control = FLOW_CONTROL.get_ptr_mut(0)?;
    // SAFETY: the lookup gave an entry; volatile, as the agent writes it too.
    let kinds = FlowKind(unsafe { (&raw const (*control).kinds).read_volatile() });
    kind.is_among(kinds).then_some(control)
}

/// Whether what has this sample is taken.
#[inline(always)]
fn takes(control: *mut FlowControl, sample: u32) -> bool {
    // SAFETY: as in `control`.
    sample <= unsafe { (&raw const (*control).threshold).read_volatile() }
}

/// Writes a record, or counts that it is lost.
#[inline(always)]
fn write<T: 'static>(control: *mut FlowControl, fill: impl FnOnce(*mut T)) {
    match FLOW_EVENTS.reserve_untyped::<T>(0) {
        Some(mut entry) => {
            fill(entry.as_mut_ptr());
            entry.submit(BPF_RB_NO_WAKEUP.into());
        }
        // SAFETY: a word of the table.
        None => unsafe { add_one(&raw mut (*control).lost) },
    }
}

#[inline(always)]
fn head(kind: FlowKind, reason: u32, service: u32, place: u32) -> FlowHead {
    FlowHead {
        // SAFETY: the helper has no preconditions.
        time: unsafe { bpf_ktime_get_ns() },
        kind,
        reason,
        service,
        place,
    }
}

/// What is told of a connection, in the words of its halves' keys.
struct Told<F: Wide> {
    came: F::Addresses,
    came_ports: u32,
    goes: F::Addresses,
    goes_ports: u32,
    protocol: u8,
    service: u32,
    reason: u32,
    overdue: u32,
}

#[inline(always)]
fn tell<F: Wide>(kind: FlowKind, told: &Told<F>) {
    let Some(control) = control(kind) else {
        return;
    };
    if !takes(control, sample(F::words(&told.came), told.came_ports)) {
        return;
    }
    let family = if F::ADDRESS_WORDS == 1 { 4 } else { 6 };
    write(control, |record: *mut ConnectionRecord| {
        // SAFETY: the ring's own memory, of which nothing is read.
        unsafe {
            (&raw mut (*record).head).write(head(kind, told.reason, told.service, family));
            let (came, goes) = (&raw mut (*record).came, &raw mut (*record).goes);
            let (from_came, from_goes) = (F::words(&told.came), F::words(&told.goes));
            for number in 0..4 {
                let word = |words: &[u64]| words.get(number).copied().unwrap_or_default();
                came.cast::<u64>().add(number).write(word(from_came));
                goes.cast::<u64>().add(number).write(word(from_goes));
            }
            (&raw mut (*record).came_ports).write(told.came_ports);
            (&raw mut (*record).goes_ports).write(told.goes_ports);
            (&raw mut (*record).protocol).write(told.protocol.into());
            (&raw mut (*record).overdue).write(told.overdue);
        }
    });
}

/// Tells that a connection began.
#[inline(always)]
pub(crate) fn tell_opened<F: Wide>(connection: &Connection<F>) {
    tell(
        FlowKind::OPENED,
        &Told::<F> {
            came: connection.forward.addresses,
            came_ports: connection.forward.ports,
            goes: connection.reply.addresses,
            goes_ports: connection.reply.ports,
            protocol: connection.forward.protocol(),
            service: connection.service,
            reason: 0,
            overdue: 0,
        },
    );
}

/// How the connection of a half is, as a number: it is not there, or half of it is missing.
pub(crate) const UNKNOWN: u64 = 0;
/// Its sides have ended it.
pub(crate) const OVER: u64 = 1;
/// Its time is not over.
pub(crate) const LASTS: u64 = 2;
/// Its time is over: for how many ticks is in the upper half of the number.
const OVERDUE: u64 = 3;

/// How the connection of the half in this slot is.
#[inline(always)]
pub(crate) fn judge<F: Wide, M: Memory<Family = F>>(
    table: &Table<'_, M>,
    index: u32,
    now: u32,
) -> u64 {
    let Some(slot) = table.memory().slot(index) else {
        return UNKNOWN;
    };
    let meta = Meta(slot.load(place::META));
    if !meta.is_live() {
        return UNKNOWN;
    }
    let half = Half { index, slot, meta };
    let Some(pair) = table.pair(half) else {
        return UNKNOWN;
    };
    if Table::<'_, M>::is_over(&pair) {
        return OVER;
    }
    let role = match meta.role() {
        Role::Forward => 0,
        Role::Reply => REPLY,
    };
    let of = role | u64::from(meta.protocol()) << PROTOCOL;
    match table.overdue(&pair, now) {
        0 => LASTS | of,
        ticks => OVERDUE | of | u64::from(ticks) << 32,
    }
}

/// The bits that say how it is, without for how long.
pub(crate) const KIND: u64 = 3;
/// The bit of a reply half, and where the number of its protocol is.
const REPLY: u64 = 4;
const PROTOCOL: u32 = 8;

/// Tells that the connection ended whose half is, or was until now, in this slot, if nothing was told of that yet. `was`
/// is what [`judge`] said of it before it did.
#[inline(always)]
pub(crate) fn tell_ended<F: Wide, M: Memory<Family = F>>(
    table: &Table<'_, M>,
    index: u32,
    was: u64,
    cause: u32,
) {
    let (cause, overdue) = match was & KIND {
        LASTS => (cause, 0),
        OVERDUE => (EndCause::TimedOut as u32, (was >> 32) as u32),
        _ => return,
    };
    let Some(slot) = table.memory().slot(index) else {
        return;
    };
    let ports = slot.load(place::PORTS);
    let (key_ports, translated_ports) = (ports as u32, (ports >> 32) as u32);
    let key = F::load(slot, place::ADDRESSES);
    let translated = F::load(slot, place::ADDRESSES + F::ADDRESS_WORDS);
    let reversed = (
        F::all_reversed(&translated),
        translated_ports.rotate_left(16),
    );
    let ((came, came_ports), (goes, goes_ports)) = if was & REPLY == 0 {
        ((key, key_ports), reversed)
    } else {
        (reversed, (key, key_ports))
    };
    tell(
        FlowKind::ENDED,
        &Told::<F> {
            came,
            came_ports,
            goes,
            goes_ports,
            protocol: (was >> PROTOCOL) as u8,
            service: Facts(slot.load(place::FACTS)).service(),
            reason: cause,
            overdue,
        },
    );
}

/// Tells what becomes of a packet that is refused or dropped, which is of the service port with this number.
#[inline(always)]
pub(crate) fn tell_packet<C: Access>(context: &C, kind: FlowKind, service: u32, reason: Counter) {
    if is_on() {
        write_packet::<C>(context.raw(), kind.0, service, reason as u32);
    }
}

/// A function of its own: it is called in many places, and its variables are nobody's but its own.
#[inline(never)]
fn write_packet<C: Access>(raw: *mut C::Raw, kind: u32, service: u32, reason: u32) {
    let context = C::from_raw(raw);
    let kind = FlowKind(kind);
    let Some(control) = control(kind) else {
        return;
    };
    // SAFETY: the helper has no preconditions.
    if !takes(control, unsafe { bpf_get_prandom_u32() }) {
        return;
    }
    let length = context.length();
    write(control, |record: *mut PacketRecord| {
        // The helper takes no count of 0, and no frame is that short.
        let count = length.clamp(1, PACKET_BYTES as u32);
        // SAFETY: the ring's own memory, of which nothing is read.
        unsafe {
            (&raw mut (*record).head).write(head(kind, reason, service, context.interface()));
            (&raw mut (*record).length).write(length);
            let bytes = (&raw mut (*record).bytes).cast::<u8>();
            let is_read = context.read_into(bytes, count);
            (&raw mut (*record).count).write(if is_read { count } else { 0 });
        }
    });
}
