//! What a connection learns from its packets.

use crate::{SCTP, TCP};

use super::{
    Facts, Hit, Key, Memory, Meta, Role, Slot, Table, Wide,
    pair::{Half, Other, Pair, TRIES, in_order},
    slot::place,
};

/// What a packet says of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signal {
    /// Nothing but that it came. SCTP: anything that follows the handshake's cookie too.
    Data,
    /// It begins a connection: SYN without ACK, INIT.
    Open,
    /// It answers that: SYN-ACK, INIT ACK. With the number that acknowledges it (TCP), host order.
    Answer(u32),
    /// A segment with this acknowledgment number, host order.
    Acknowledge(u32),
    /// It ends this side.
    Fin,
    /// It ends the connection.
    Reset,
}

impl Signal {
    /// As a number.
    const fn number(self) -> u64 {
        match self {
            Self::Data => 0,
            Self::Open => 1,
            Self::Fin => 2,
            Self::Reset => 3,
            Self::Answer(number) => 4 | (number as u64) << 32,
            Self::Acknowledge(number) => 5 | (number as u64) << 32,
        }
    }

    /// The signal with this [`Self::number`].
    const fn of_number(number: u64) -> Self {
        match number as u32 {
            1 => Self::Open,
            2 => Self::Fin,
            3 => Self::Reset,
            4 => Self::Answer((number >> 32) as u32),
            5 => Self::Acknowledge((number >> 32) as u32),
            _ => Self::Data,
        }
    }
}

/// What one side's reset is known by at the two halves.
const RESETS: u16 = Meta::RESET | Meta::PEER_RESET;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// The half of a packet with this key, unless its time is over.
    #[inline(always)]
    pub fn lookup(&self, key: &Key<F>, now: u32) -> Option<Hit<F, M::Slot>> {
        let hit = self.find(key)?;
        if hit.times.idle(now) > self.timeouts.shortest
            && M::expire(self, hit.index, hit.meta.0, now)
        {
            return None;
        }
        Some(hit)
    }

    /// Whether a packet that says no more than [`Signal::Data`] or [`Signal::Acknowledge`] leaves no
    /// trace on this half but its time, which [`Self::touch`] leaves.
    #[inline(always)]
    pub const fn is_settled(hit: &Hit<F, M::Slot>) -> bool {
        hit.meta.seen() & (Meta::ASSURED | RESETS) == Meta::ASSURED
    }

    /// Notes that a packet came. Written once a tick, so that a busy connection's line stays clean in
    /// the caches of the CPUs that read it.
    #[inline(always)]
    pub fn touch(&self, hit: &Hit<F, M::Slot>, now: u32) {
        if hit.times.last_seen() != now {
            let touched = hit.times.at(now);
            // If somebody else did, so much the better.
            hit.slot.exchange(place::TIMES, hit.times.0, touched.0);
        }
    }

    /// Notes what a packet says.
    #[inline(always)]
    pub fn observe(&self, hit: &Hit<F, M::Slot>, signal: Signal, now: u32) {
        self.touch(hit, now);
        let plain = matches!(signal, Signal::Data | Signal::Acknowledge(_));
        if plain && Self::is_settled(hit) {
            return;
        }
        // A flow that has not lasted yet is looked at once a tick, so that its packets cost little.
        let is_flow = !matches!(hit.meta.protocol(), TCP | SCTP);
        let is_first_reply = hit.meta.role() == Role::Reply && !hit.meta.has(Meta::REPLIED);
        if plain && is_flow && hit.times.last_seen() == now && !is_first_reply {
            return;
        }
        M::observe(self, hit.index, hit.meta.0, signal.number(), now.into());
    }

    /// Notes what a packet says of the half that was found in this slot.
    #[inline(always)]
    pub fn observe_here(&self, index: u32, meta: u64, signal: u64, now: u64) {
        let Some(slot) = self.memory.slot(index) else {
            return;
        };
        let half = Half {
            index,
            slot,
            meta: Meta(meta),
        };
        let (signal, now) = (Signal::of_number(signal), now as u32);
        if signal == Signal::Reset {
            return self.note_reset(half);
        }
        if half.meta.has_any(RESETS) {
            self.revive(half);
        }
        match half.meta.role() {
            Role::Forward => self.observe_client(half, signal, now),
            Role::Reply => self.observe_backend(half, signal, now),
        }
    }

    #[inline(always)]
    fn observe_client(&self, half: Half<M::Slot>, signal: Signal, now: u32) {
        let meta = half.meta;
        if signal == Signal::Fin {
            mark(half, Meta::FIN, 0);
        }
        if meta.has(Meta::ASSURED) {
            return;
        }
        let Other::Live(reply) = self.other(half.slot) else {
            return;
        };
        let facts = Facts(reply.slot.load(place::FACTS));
        let assures = match (meta.protocol(), signal) {
            (TCP, Signal::Acknowledge(number)) => {
                reply.meta.has(Meta::SYN_ACK) && facts.mark() == number
            }
            (TCP | SCTP, _) => false,
            _ => reply.meta.has(Meta::REPLIED) && self.has_lasted(facts, now),
        };
        if assures {
            self.assure(&in_order(half, reply));
        }
    }

    #[inline(always)]
    fn observe_backend(&self, half: Half<M::Slot>, signal: Signal, now: u32) {
        let meta = half.meta;
        let mut seen = Meta::REPLIED;
        match signal {
            Signal::Answer(number) => {
                if meta.protocol() == TCP && !meta.has(Meta::ASSURED) {
                    set_mark(half, number);
                }
                seen |= Meta::SYN_ACK;
            }
            Signal::Fin => seen |= Meta::FIN,
            _ => {}
        }
        mark(half, seen, 0);
        if meta.has(Meta::ASSURED) {
            return;
        }
        let begun = meta.has(Meta::OPENED);
        let assures = match meta.protocol() {
            // Picked up in its course, and both speak.
            TCP => !begun && !matches!(signal, Signal::Answer(_)),
            // COOKIE ACK, or what follows: the backend has verified its cookie.
            SCTP => !matches!(signal, Signal::Answer(_) | Signal::Open),
            _ => self.has_lasted(Facts(half.slot.load(place::FACTS)), now),
        };
        if assures && let Some(pair) = self.pair(half) {
            self.assure(&pair);
        }
    }

    #[inline(always)]
    const fn has_lasted(&self, facts: Facts, now: u32) -> bool {
        let age = now.wrapping_sub(facts.mark());
        age > self.timeouts.lasting && age <= u32::MAX / 2
    }

    /// From now on the connection is not given up for room: the owner first, whose word counts.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    fn assure(&self, pair: &Pair<M::Slot>) {
        if mark(pair.forward, Meta::ASSURED, 0) {
            mark(pair.reply, Meta::ASSURED, 0);
        }
    }

    /// Makes the reply half know that its connection is assured.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    pub(super) fn correct(&self, pair: &Pair<M::Slot>) {
        if pair.forward.meta.has(Meta::ASSURED) && !pair.reply.meta.has(Meta::ASSURED) {
            mark(pair.reply, Meta::ASSURED, 0);
        }
    }

    #[inline(always)]
    fn note_reset(&self, half: Half<M::Slot>) {
        mark(half, Meta::RESET, 0);
        if let Other::Live(other) = self.other(half.slot) {
            mark(other, Meta::PEER_RESET, 0);
        }
    }

    /// A segment after a reset: whoever sent that, it was not for this connection's end.
    #[inline(always)]
    fn revive(&self, half: Half<M::Slot>) {
        mark(half, 0, RESETS);
        if let Other::Live(other) = self.other(half.slot) {
            mark(other, 0, RESETS);
        }
    }
}

/// Marks what has been seen, or no longer counts, of a half; gives whether it is so now.
#[inline(always)]
pub(super) fn mark<S: Slot>(half: Half<S>, set: u16, cleared: u16) -> bool {
    let mut meta = half.meta;
    for _ in 0..TRIES {
        let marked = meta.seeing(set, cleared);
        if marked == meta || half.slot.exchange(place::META, meta.0, marked.0) {
            return true;
        }
        meta = Meta(half.slot.load(place::META));
        if !meta.is_same_half(half.meta) {
            return false;
        }
    }
    false
}

/// Keeps the number that acknowledges the backend's SYN-ACK. A slot that has become a forward half's
/// is left alone; that of another reply half gets a number that its own SYN-ACK replaces.
#[inline(always)]
fn set_mark<S: Slot>(half: Half<S>, number: u32) {
    let facts = Facts(half.slot.load(place::FACTS));
    if facts.is_of_reply() && facts.mark() != number {
        half.slot
            .exchange(place::FACTS, facts.0, facts.with_mark(number).0);
    }
}
