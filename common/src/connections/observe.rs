//! Changes of a connection's state by its packets.

use crate::{SCTP, TCP};

use super::{
    Facts, Hit, Key, Memory, Meta, Phase, Role, Signal, Slot, Table, Times, Wide,
    pair::{Half, Other, Pair, TRIES, in_order},
    proof::{AWAITS, CLAIMS},
    slot::place,
};

/// The most that a backend sends before it has an acknowledgment, and its FIN: the window of a SYN is not scaled (RFC
/// 7323 section 2.2).
const FIRST_WINDOW: u32 = 1 << 16;

/// The bits of one side's reset at the two halves.
pub(super) const RESETS: u16 = Meta::RESET | Meta::PEER_RESET;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// The half of a packet with this key, unless its time is over. `opens`: the packet may begin
    /// another connection.
    #[inline(always)]
    pub fn lookup(&self, key: &Key<F>, opens: bool, now: u32) -> Option<Half<M::Slot>> {
        let half = self.find_half(key)?;
        let is_over = self.may_have_expired(&half, now)
            && M::expire(self, half.index, half.meta.0, opens, now);
        (!is_over).then_some(half)
    }

    /// Returns whether the time of this half's connection may be over. The other half, which knows, is a cache line of
    /// its own: it is looked at only if this one alone does not decide.
    #[inline(always)]
    pub fn may_have_expired(&self, half: &Half<M::Slot>, now: u32) -> bool {
        let least = if half.meta.has(Meta::ASSURED) && !half.meta.is_ending() {
            self.timeouts.of(Phase::longest(half.meta))
        } else {
            self.timeouts.shortest
        };
        Times(half.slot.load(place::TIMES)).idle(now) > least
    }

    /// Returns whether a packet whose signal [`Signal::is_plain`] leaves no trace on this half but its time,
    /// which [`Self::touch`] leaves.
    #[inline(always)]
    pub const fn is_settled(hit: &Hit<F, M::Slot>) -> bool {
        hit.meta.seen() & (Meta::ASSURED | RESETS | AWAITS) == Meta::ASSURED
    }

    /// Notes that a packet came. Written once a tick, so that a busy connection's line stays clean in
    /// the caches of the CPUs that read it.
    #[inline(always)]
    pub fn touch(&self, hit: &Hit<F, M::Slot>, now: u32) {
        if hit.times.last_seen() != now {
            hit.slot.store_half(place::TIMES, now);
        }
    }

    /// Notes the signal of a packet.
    #[inline(always)]
    pub fn observe(&self, hit: &Hit<F, M::Slot>, signal: Signal, now: u32) {
        self.touch(hit, now);
        let plain = signal.is_plain();
        if plain && Self::is_settled(hit) {
            return;
        }
        // A flow that has not lasted yet is looked at once a tick, so that its packets cost little.
        let is_flow = !matches!(hit.meta.protocol(), TCP | SCTP);
        let is_first_reply = hit.meta.role() == Role::Reply && !hit.meta.has(Meta::REPLIED);
        if plain && is_flow && hit.times.last_seen() == now && !is_first_reply {
            return;
        }
        M::observe(self, hit.index, hit.meta.0, signal.0, now.into());
    }

    /// Returns whether a SYN with this sequence number is the one that opened this connection, or may be; or is the
    /// latest that has come in it.
    #[inline(always)]
    pub fn may_have_begun_with(&self, pair: &Pair<M::Slot>, sequence: u32) -> bool {
        let (forward, reply) = (pair.forward.meta, pair.reply.meta);
        let mark = Facts(pair.reply.slot.load(place::FACTS)).mark();
        if reply.has(Meta::AWAITS_SYN_ACK) {
            return mark == Signal::open(sequence).awaited();
        }
        !forward.has(Meta::ASSURED) && (reply.has(Meta::SYN_ACK) || mark == sequence)
    }

    /// Notes that the backend has answered a SYN as no connection is opened, or as none that the client is to have. Of
    /// a reply half.
    #[inline(always)]
    pub fn mistake(&self, half: Half<M::Slot>) {
        mark(half, Meta::MISTAKEN, 0);
    }

    /// Notes the signal of a packet of the half that was found in this slot. Returns whether its connection has begun
    /// again.
    #[inline(always)]
    pub fn observe_here(&self, index: u32, meta: u64, signal: u64, now: u64) -> bool {
        let Some(slot) = self.memory.slot(index) else {
            return false;
        };
        let half = Half {
            index,
            slot,
            meta: Meta(meta),
        };
        let (signal, now) = (Signal(signal), now as u32);
        if signal.resets() {
            self.note_reset(half, signal);
            return false;
        }
        // A SYN is of no connection that there was before.
        if half.meta.has_any(RESETS) && !signal.opens() {
            self.revive(half);
        }
        // Of a client's FIN the backend's acknowledgment is awaited.
        let is_claim = half.meta.protocol() == TCP
            && half.meta.role() == Role::Forward
            && half.meta.has(Meta::ASSURED);
        if signal.ends()
            && !is_claim
            && let Other::Live(other) = self.other(half.slot)
        {
            mark(other, Meta::PEER_FIN, 0);
        }
        match half.meta.role() {
            Role::Forward => {
                self.observe_client(half, signal, now);
                false
            }
            Role::Reply => self.observe_backend(half, signal, now),
        }
    }

    #[inline(always)]
    fn observe_client(&self, half: Half<M::Slot>, signal: Signal, now: u32) {
        let meta = half.meta;
        let is_tcp = meta.protocol() == TCP;
        let is_assured = meta.has(Meta::ASSURED);
        if signal.ends() && !(is_tcp && is_assured) {
            mark(half, Meta::FIN, 0);
        }
        if is_assured && !is_tcp {
            return;
        }
        let Other::Live(reply) = self.other(half.slot) else {
            return;
        };
        if is_assured {
            return self.await_answer(half, reply, signal);
        }
        let facts = Facts(reply.slot.load(place::FACTS));
        let assures = match meta.protocol() {
            TCP => {
                // Who guesses has to hit one number of 2^32, but for a client to whom the backend has sent
                // data: that one has shown before that it is there, by its cookie.
                let behind = if reply.meta.has(Meta::EARLY_DATA) {
                    FIRST_WINDOW
                } else {
                    0
                };
                reply.meta.has(Meta::SYN_ACK) && signal.acknowledges(facts.mark(), behind)
            }
            SCTP => false,
            _ => reply.meta.has(Meta::REPLIED) && self.has_lasted(facts, now),
        };
        if assures {
            self.assure(&in_order(half, reply));
            if is_tcp {
                let meta = meta.seeing(0, Meta::FIN);
                self.await_answer(Half { meta, ..half }, reply, signal);
            }
        }
    }

    #[inline(always)]
    fn observe_backend(&self, half: Half<M::Slot>, signal: Signal, now: u32) -> bool {
        let meta = half.meta;
        if meta.has_any(AWAITS) && self.takes_answer(half, signal) {
            return true;
        }
        let mut seen = Meta::REPLIED;
        if signal.answers() {
            if meta.protocol() == TCP && !meta.has(Meta::ASSURED) {
                set_mark(half, signal.number());
            }
            seen |= Meta::SYN_ACK;
        } else if meta.protocol() == TCP && !meta.has(Meta::ASSURED) && signal.advances() {
            seen |= Meta::EARLY_DATA;
        }
        if signal.ends() {
            seen |= Meta::FIN;
        }
        mark(half, seen, 0);
        if meta.has(Meta::ASSURED) {
            return false;
        }
        let begun = meta.has(Meta::OPENED);
        let assures = match meta.protocol() {
            // Picked up in its course, and both speak.
            TCP => !begun && !signal.answers(),
            // COOKIE ACK, or what follows: the backend has verified its cookie.
            SCTP => !signal.answers() && !signal.opens(),
            _ => self.has_lasted(Facts(half.slot.load(place::FACTS)), now),
        };
        if assures && let Some(pair) = self.pair(half) {
            self.assure(&pair);
        }
        false
    }

    #[inline(always)]
    const fn has_lasted(&self, facts: Facts, now: u32) -> bool {
        let age = now.wrapping_sub(facts.mark());
        age > self.timeouts.lasting && age <= u32::MAX / 2
    }

    /// From now on the connection is not given up for room: the owner first, whose word counts. A FIN that
    /// came in the client's name before it had proved to be there does not count.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    fn assure(&self, pair: &Pair<M::Slot>) {
        let [of_client, of_peer] = if pair.forward.meta.protocol() == TCP {
            [Meta::FIN, Meta::PEER_FIN]
        } else {
            [0, 0]
        };
        if mark(pair.forward, Meta::ASSURED, of_client) {
            mark(pair.reply, Meta::ASSURED, of_peer);
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
    fn note_reset(&self, half: Half<M::Slot>, signal: Signal) {
        let Other::Live(other) = self.other(half.slot) else {
            mark(half, Meta::RESET, 0);
            return;
        };
        // A connection that a proved reset has ended may be given up, and awaits nothing.
        let cleared = if self.is_proved_reset(&half, &other, signal) {
            Meta::ASSURED | CLAIMS
        } else {
            0
        };
        mark(half, Meta::RESET, cleared);
        mark(other, Meta::PEER_RESET, cleared);
    }

    /// A segment after a reset: whatever sent that, it was not for this connection's end.
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
pub(super) fn set_mark<S: Slot>(half: Half<S>, number: u32) {
    let facts = Facts(half.slot.load(place::FACTS));
    if facts.is_of_reply() && facts.mark() != number {
        half.slot
            .exchange(place::FACTS, facts.0, facts.with_mark(number).0);
    }
}
