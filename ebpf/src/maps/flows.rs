//! Events of connections and packets: written into a ring, from which the agent reads.
//!
//! There are two objects of these programs ([`is_on`]), and only one of them writes: while there is a watcher, the
//! agent puts its programs in the place of the others'.
//!
//! No process is waked for a record: the agent looks some tens of times a second. What finds no room is counted.

use aya_ebpf::{
    bindings::{BPF_F_MMAPABLE, BPF_RB_NO_WAKEUP},
    btf_maps::{Array, RingBuf},
    helpers::{bpf_get_prandom_u32, bpf_get_smp_processor_id, bpf_ktime_get_ns},
    macros::btf_map,
};
use shunt_common::{
    ConnectionRecord, Counter, EndCause, FlowControl, FlowEnds, FlowHead, FlowKind, PACKET_BYTES,
    PacketRecord, Sample,
    connections::{
        Connection, Facts, Half, Memory, Meta, Role, Signal, Slot as _, Table, Wide, place,
    },
};

use crate::{ctx::access::Access, maps::atomic::add_one};

const MMAPABLE: usize = BPF_F_MMAPABLE as usize;

/// The records. The smallest ring of any machine's, a page: the agent has it larger where programs write.
#[btf_map]
pub(crate) static FLOW_EVENTS: RingBuf<u64, 65_536> = RingBuf::new();

/// The kinds that are reported, the lost events, and the [`Doubt`] of each processor, all of which the agent has where
/// programs write. One table, as a program may have no more than 64 (`MAX_USED_MAPS`).
#[btf_map]
pub(crate) static FLOW_CONTROL: Array<FlowControl, { FlowControl::PROCESSORS as usize }, MMAPABLE> =
    Array::new();

/// Returns whether anything is reported. The compiler knows: a constant that the agent sets would be a load wherever
/// this is called, also for packets of established connections.
#[inline(always)]
pub(crate) const fn is_on() -> bool {
    cfg!(feature = "flows")
}

/// Returns the control entry, if this kind is reported.
#[inline(always)]
fn control(kind: FlowKind) -> Option<*mut FlowControl> {
    if !is_on() {
        return None;
    }
    let control = FLOW_CONTROL.get_ptr_mut(FlowControl::CHOICE)?;
    // SAFETY: the lookup gave an entry; volatile, as the agent writes it too.
    let kinds = FlowKind(unsafe { (&raw const (*control).kinds).read_volatile() });
    kind.is_among(kinds).then_some(control)
}

/// Returns whether what has this sample is taken.
#[inline(always)]
fn takes(control: *mut FlowControl, sample: u32) -> bool {
    // SAFETY: as in `control`.
    sample <= unsafe { (&raw const (*control).threshold).read_volatile() }
}

/// Returns whether a connection is taken of which these are the ports and the words of its addresses.
#[inline(always)]
fn takes_connection<F: Wide>(
    control: *mut FlowControl,
    ports: u32,
    word: impl Fn(usize) -> u64,
) -> bool {
    let mut sample = Sample::of(ports);
    for number in 0..F::ADDRESS_WORDS {
        sample.add(word(number));
    }
    if !takes(control, sample.number()) {
        return false;
    }
    // SAFETY: as in `control`; the agent may write a word at any time.
    unsafe {
        let ends = &raw const (*control).ends;
        let family = (&raw const (*ends).family).read_volatile();
        if family == 0 {
            return true;
        }
        if family != family_of::<F>() {
            return false;
        }
        let want = (&raw const (*ends).addresses).cast::<u64>();
        let mask = (&raw const (*ends).address_mask).cast::<u64>();
        for number in 0..F::ADDRESS_WORDS {
            let (want, mask) = (want.add(number), mask.add(number));
            if FlowEnds::differs(word(number), want.read_volatile(), mask.read_volatile()) {
                return false;
            }
        }
        let want = (&raw const (*ends).ports).read_volatile();
        let mask = (&raw const (*ends).port_mask).read_volatile();
        !FlowEnds::differs(ports.into(), want.into(), mask.into())
    }
}

const fn family_of<F: Wide>() -> u32 {
    if F::ADDRESS_WORDS == 1 { 4 } else { 6 }
}

/// Writes a record, or counts that it is lost.
#[inline(always)]
fn write<T: 'static>(fill: impl FnOnce(*mut T)) {
    if let Some(mut entry) = FLOW_EVENTS.reserve_untyped::<T>(0) {
        fill(entry.as_mut_ptr());
        entry.submit(BPF_RB_NO_WAKEUP.into());
    } else if let Some(loss) = FLOW_CONTROL.get_ptr_mut(FlowControl::LOSS) {
        // SAFETY: a word of the table.
        unsafe { add_one(&raw mut (*loss).lost) };
    }
}

/// Writes what both kinds of records begin with, field by field: no variable of the program's has all of it. The time last,
/// as nothing of the others has to be kept meanwhile.
///
/// # Safety
///
/// There is room for it.
#[inline(always)]
unsafe fn write_head(head: *mut FlowHead, kind: FlowKind, reason: u32, service: u32, place: u32) {
    // SAFETY: as the caller guarantees; the helper has no preconditions.
    unsafe {
        (&raw mut (*head).kind).write(kind);
        (&raw mut (*head).reason).write(reason);
        (&raw mut (*head).service).write(service);
        (&raw mut (*head).place).write(place);
        (&raw mut (*head).time).write(bpf_ktime_get_ns());
    }
}

/// Reports that a connection began.
#[inline(always)]
pub(crate) fn tell_opened<F: Wide>(connection: &Connection<F>) {
    let (came, goes) = (&connection.forward, &connection.reply);
    let Some(control) = control(FlowKind::OPENED) else {
        return;
    };
    let word = |number: usize| {
        let words = F::words(&came.addresses);
        words.get(number).copied().unwrap_or_default()
    };
    if !takes_connection::<F>(control, came.ports, word) {
        return;
    }
    write(|record: *mut ConnectionRecord| {
        // SAFETY: the ring's own memory, of which nothing is read.
        unsafe {
            let (head, service) = (&raw mut (*record).head, connection.service);
            write_head(head, FlowKind::OPENED, 0, service, family_of::<F>());
            for number in 0..F::ADDRESS_WORDS {
                let to = (&raw mut (*record).came).cast::<u64>().add(number);
                to.write(word(number));
                let to = (&raw mut (*record).goes).cast::<u64>().add(number);
                to.write(F::reversed(&goes.addresses, number));
            }
            (&raw mut (*record).came_ports).write(came.ports);
            (&raw mut (*record).goes_ports).write(goes.ports.rotate_left(16));
            (&raw mut (*record).protocol).write(came.protocol());
            (&raw mut (*record).is_reply).write(0);
            (&raw mut (*record).overdue).write(0);
        }
    });
}

/// A connection that this CPU may just be ending: the facts of the half in a slot, before that is so, or is not.
///
/// The functions that end connections are called from deep below, where kernels before 6.8 have no stack for another call
/// (see `scratch`). So they leave this here, and their caller calls what reports it.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Doubt {
    /// The half's slot.
    index: u32,
    /// Of one that has timed out, for how many ticks its time has been over.
    overdue: u32,
    /// The protocol.
    protocol: u8,
    /// 1 if it is the reply half, else 0.
    is_reply: u8,
    /// Of [`EndCause`].
    cause: u8,
    /// Condition of its end: `NOTHING`, `IF_DONE` or `IF_MARKED`.
    ends: u8,
}

/// Of [`Doubt::ends`]: nothing does, or its end is not to be reported.
const NOTHING: u8 = 0;
/// If the call that comes next reports it.
const IF_DONE: u8 = 1;
/// If the half's own marks show it after that.
const IF_MARKED: u8 = 2;

impl Doubt {
    const NONE: Self = Self {
        index: 0,
        overdue: 0,
        protocol: 0,
        is_reply: 0,
        cause: 0,
        ends: NOTHING,
    };

    #[inline(always)]
    fn of(index: u32, meta: Meta, cause: EndCause) -> Self {
        Self {
            index,
            protocol: meta.protocol(),
            is_reply: u8::from(meta.role() == Role::Reply),
            cause: cause as u8,
            ends: IF_DONE,
            ..Self::NONE
        }
    }
}

/// This CPU's.
#[inline(always)]
fn own_doubt() -> Option<*mut Doubt> {
    // SAFETY: the helper has no preconditions.
    let cpu = unsafe { bpf_get_smp_processor_id() };
    let entry = FLOW_CONTROL.get_ptr_mut(FlowControl::PROCESSORS + cpu)?;
    Some(entry.cast())
}

const _: () = assert!(size_of::<Doubt>() <= size_of::<FlowControl>());

/// Leaves this for [`tell_ended`].
#[inline(always)]
pub(crate) fn doubt(doubt: Doubt) {
    if let Some(place) = own_doubt() {
        // SAFETY: this CPU's own, to which there is no other reference.
        unsafe { place.write(doubt) };
    }
}

/// Returns the effect that a packet with this signal may have on the connection of a half that had these marks.
#[inline(always)]
pub(crate) fn foresee(index: u32, meta: Meta, signal: Signal) -> Doubt {
    let cause = match (signal.resets(), signal.ends()) {
        (true, _) => EndCause::Reset,
        (false, true) => EndCause::Finished,
        // The backend may acknowledge the client's FIN.
        (false, false) if meta.has(Meta::AWAITS_FIN_ACK) => EndCause::Finished,
        (false, false) => return Doubt::NONE,
    };
    if meta.is_over() {
        return Doubt::NONE;
    }
    Doubt {
        ends: IF_MARKED,
        ..Doubt::of(index, meta, cause)
    }
}

/// Returns the doubt about the connection of the half in this slot, which is to be given up now for this reason,
/// unless its time is over.
#[inline(always)]
pub(crate) fn judge<F: Wide, M: Memory<Family = F>>(
    table: &Table<'_, M>,
    index: u32,
    now: u32,
    cause: EndCause,
) -> Doubt {
    let Some(slot) = table.memory().slot(index) else {
        return Doubt::NONE;
    };
    let meta = Meta(slot.load(place::META));
    if !meta.is_live() || meta.is_over() {
        return Doubt::NONE;
    }
    let Some(pair) = table.pair(Half { index, slot, meta }) else {
        return Doubt::NONE;
    };
    match table.overdue(&pair, now) {
        0 => Doubt::of(index, meta, cause),
        overdue => Doubt {
            overdue,
            ..Doubt::of(index, meta, EndCause::TimedOut)
        },
    }
}

/// Reports that the connection in doubt has ended, if it has. The content of its slot is still there.
#[inline(always)]
pub(crate) fn tell_ended<F: Wide, M: Memory<Family = F>>(table: &Table<'_, M>, has_ended: bool) {
    let Some(doubt) = own_doubt() else {
        return;
    };
    // SAFETY: this CPU's own, to which there is no other reference. Field by field, as the program's own variables are
    // on the stack.
    let (ends, index) = unsafe {
        let ends = (&raw const (*doubt).ends).read_volatile();
        (&raw mut (*doubt).ends).write_volatile(NOTHING);
        (ends, (&raw const (*doubt).index).read_volatile())
    };
    if !has_ended || ends == NOTHING {
        return;
    }
    let Some(slot) = table.memory().slot(index) else {
        return;
    };
    if ends == IF_MARKED && !Meta(slot.load(place::META)).is_over() {
        return;
    }
    let Some(control) = control(FlowKind::ENDED) else {
        return;
    };
    // SAFETY: as before.
    let is_reply = unsafe { (&raw const (*doubt).is_reply).read_volatile() } != 0;
    let ports = slot.load(place::PORTS);
    let came_ports = if is_reply {
        ((ports >> 32) as u32).rotate_left(16)
    } else {
        ports as u32
    };
    let key = |number: usize| slot.load(place::ADDRESSES + number);
    let reversed =
        |number: usize| F::reversed_at(slot, place::ADDRESSES + F::ADDRESS_WORDS, number);
    let came = |number: usize| {
        if is_reply {
            reversed(number)
        } else {
            key(number)
        }
    };
    if !takes_connection::<F>(control, came_ports, came) {
        return;
    }
    write(|record: *mut ConnectionRecord| {
        // SAFETY: the ring's own memory, of which nothing is read.
        unsafe {
            write_head(
                &raw mut (*record).head,
                FlowKind::ENDED,
                (&raw const (*doubt).cause).read_volatile().into(),
                Facts(slot.load(place::FACTS)).service(),
                family_of::<F>(),
            );
            for number in 0..F::ADDRESS_WORDS {
                let to = (&raw mut (*record).came).cast::<u64>().add(number);
                to.write(key(number));
                let to = (&raw mut (*record).goes).cast::<u64>().add(number);
                to.write(slot.load(place::ADDRESSES + F::ADDRESS_WORDS + number));
            }
            let ports = slot.load(place::PORTS);
            (&raw mut (*record).came_ports).write(ports as u32);
            (&raw mut (*record).goes_ports).write((ports >> 32) as u32);
            (&raw mut (*record).protocol).write((&raw const (*doubt).protocol).read_volatile());
            (&raw mut (*record).is_reply).write((&raw const (*doubt).is_reply).read_volatile());
            let overdue = (&raw const (*doubt).overdue).read_volatile();
            (&raw mut (*record).overdue).write(overdue);
        }
    });
}

/// Reports the end of a packet that is refused or dropped, which is of the service port with this number.
#[inline(always)]
pub(crate) fn tell_packet<C: Access>(context: &C, kind: FlowKind, service: u32, reason: Counter) {
    if is_on() {
        write_packet::<C>(context.raw(), kind.0, service, reason as u32);
    }
}

/// The place of the last byte that is reported of a packet: all bits of it are set.
const LAST_BYTE: u32 = PACKET_BYTES as u32 - 1;

/// A function of its own: it is called in many places, and its variables are its own alone. These have to be few:
/// where it is called deepest, kernels before 6.8 have 32 bytes of stack for it.
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
    write(|record: *mut PacketRecord| {
        let length = context.length();
        // From 1 to all, in a form that the verifier follows: the helper takes no count of 0, and no frame is that short.
        let count = (length.min(LAST_BYTE + 1).wrapping_sub(1) & LAST_BYTE) + 1;
        // SAFETY: the ring's own memory, of which nothing is read.
        unsafe {
            let head = &raw mut (*record).head;
            write_head(head, kind, reason, service, context.interface());
            (&raw mut (*record).length).write(length);
            let bytes = (&raw mut (*record).bytes).cast::<u8>();
            let is_read = context.read_into(bytes, count);
            (&raw mut (*record).count).write(if is_read { count } else { 0 });
        }
    });
}
