//! Segments that end an established TCP connection, and the proof that its own client has sent them.
//!
//! Anybody who knows a connection's addresses and ports can send a SYN, FIN or RST in its client's name. The
//! table does not follow sequence numbers: that would be a write for each packet. But the backend knows them,
//! and its answer proves a segment:
//!
//! | segment of the client | proof | then |
//! |---|---|---|
//! | FIN | an acknowledgment of it | this side has ended |
//! | SYN | a SYN-ACK that acknowledges it | the connection begins again, with its tuple and its backend |
//! | SYN | a RST that acknowledges it | the connection has ended |
//! | RST behind such a SYN | its sequence number is what the backend has acknowledged in answer to the SYN (RFC 9293 section 3.10.7.4, RFC 5961 section 4) | the connection has ended |
//!
//! An established connection has no need of its reply half's mark, so that is the number that is awaited. One number is
//! awaited at a time, the latest. Bits of [`Meta`] show which it is.

use crate::TCP;

use super::{
    Facts, Link, Memory, Meta, Phase, Role, Room, Signal, Slot, Table, Times, Wide,
    observe::{RESETS, mark, set_mark},
    pair::{Half, Pair},
    slot::place,
};

/// Of a reply half: the backend's next packet may be an answer that is awaited.
pub(super) const AWAITS: u16 = Meta::AWAITS_SYN_ACK | Meta::AWAITS_FIN_ACK;

/// The bits for the meaning of an established connection's mark.
pub(super) const CLAIMS: u16 = AWAITS | Meta::CHALLENGED;

/// The bits that a connection that begins again has not seen yet.
const BEFORE: u16 = Meta::ASSURED
    | Meta::FIN
    | Meta::PEER_FIN
    | Meta::MISTAKEN
    | Meta::EARLY_DATA
    | RESETS
    | CLAIMS;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Returns whether a packet that opens a connection begins another one than this, whose tuple it has. If not, it
    /// goes to this one's backend. `is_current`: the backend is still the one that it was.
    ///
    /// The other side of an established TCP connection may be open until both have ended it. There a SYN
    /// replaces nothing. If the backend is gone, and has left a SYN before this one without an answer or has begun
    /// another connection, this one does.
    #[inline(always)]
    pub fn is_replaced(&self, pair: &Pair<M::Slot>, is_current: bool, now: u32) -> bool {
        if self.has_ended(pair, now) {
            return true;
        }
        let (forward, reply) = (pair.forward.meta, pair.reply.meta);
        if forward.protocol() == TCP && forward.has(Meta::ASSURED) {
            return !is_current && (reply.has(Meta::MISTAKEN) || self.is_unanswered(pair, now));
        }
        !is_current || forward.has(Meta::FIN) || reply.has(Meta::MISTAKEN)
    }

    /// Returns whether a packet that begins another connection with its tuple does so because it has ended. A reset of
    /// an established TCP connection may be anybody's and proves nothing.
    #[inline(always)]
    pub fn has_ended(&self, pair: &Pair<M::Slot>, now: u32) -> bool {
        let (forward, reply) = (pair.forward.meta, pair.reply.meta);
        let phase = match Phase::before_reset(forward, reply) {
            Some(before) if forward.protocol() == TCP => before,
            _ => Phase::of(forward, reply),
        };
        !self.lasts(pair, phase, now) || phase.room() == Room::Over
    }

    /// Returns whether the backend has left a SYN without an answer for as long as one takes, and that SYN was not one
    /// of many. A host answers SYNs in a connection at least twice a second (Linux, `tcp_invalid_ratelimit`), so
    /// one that has answered nothing for a second before would have answered.
    #[inline(always)]
    fn is_unanswered(&self, pair: &Pair<M::Slot>, now: u32) -> bool {
        let sent = Times(pair.forward.slot.load(place::TIMES)).idle(now);
        let heard = Times(pair.reply.slot.load(place::TIMES)).idle(now);
        // Ticks are as long as 0.64 s: two of them are more than one.
        let (second, round_trip) = (self.lasting() / 2, self.lasting() / 4);
        pair.reply.meta.has(Meta::AWAITS_SYN_ACK)
            && sent >= round_trip.max(2)
            && heard.saturating_sub(sent) >= second.max(2)
    }

    /// Has an established connection of TCP await the answer to a segment of its client's that ends it, if this
    /// is one.
    #[inline(always)]
    pub(super) fn await_answer(
        &self,
        forward: Half<M::Slot>,
        reply: Half<M::Slot>,
        signal: Signal,
    ) {
        let awaited = if signal.opens() {
            Meta::AWAITS_SYN_ACK
        } else if signal.ends() && !forward.meta.has(Meta::FIN) {
            Meta::AWAITS_FIN_ACK
        } else {
            return;
        };
        self.claim_mark(reply, signal.awaited(), awaited);
    }

    /// Makes `number` the mark, with the meaning of `claim`.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    fn claim_mark(&self, reply: Half<M::Slot>, number: u32, claim: u16) {
        let is_same = Facts(reply.slot.load(place::FACTS)).mark() == number;
        if is_same && reply.meta.has(claim) {
            return;
        }
        // Nothing is compared with a mark that is not its own.
        if mark(reply, 0, CLAIMS) {
            set_mark(reply, number);
            let meta = reply.meta.seeing(0, CLAIMS);
            mark(Half { meta, ..reply }, claim, 0);
        }
    }

    /// Takes a packet of the backend's for the answer that is awaited, if it is that. Returns whether the
    /// connection has begun again, so that nothing else is to be learned.
    #[inline(always)]
    pub(super) fn takes_answer(&self, reply: Half<M::Slot>, signal: Signal) -> bool {
        let number = Facts(reply.slot.load(place::FACTS)).mark();
        let is_answer = signal.is_answer_to(number);
        let awaits_syn_ack = reply.meta.has(Meta::AWAITS_SYN_ACK);
        if awaits_syn_ack && signal.answers() && is_answer {
            return self.begin_again(reply, signal.number());
        }
        if !signal.is_acknowledgment() {
            return false;
        }
        if awaits_syn_ack {
            self.claim_mark(reply, signal.number(), Meta::CHALLENGED);
        } else if is_answer && let Some(pair) = self.pair(reply) {
            mark(pair.forward, Meta::FIN, 0);
            mark(pair.reply, Meta::PEER_FIN, AWAITS);
        }
        false
    }

    /// Makes the connection one that the backend has just answered, by a SYN-ACK that `number` acknowledges.
    #[inline(always)]
    fn begin_again(&self, reply: Half<M::Slot>, number: u32) -> bool {
        let Some(pair) = self.pair(reply) else {
            return false;
        };
        set_mark(pair.reply, number);
        if mark(pair.forward, Meta::OPENED, BEFORE) {
            let seen = Meta::OPENED | Meta::REPLIED | Meta::SYN_ACK;
            mark(pair.reply, seen, BEFORE);
        }
        true
    }

    /// Returns whether a packet of the backend's, of which this is the half, shows that the connection has ended
    /// there: it begins another one, or refuses to, with a client that has sent a SYN in it.
    #[inline(always)]
    pub fn shows_end(&self, half: &Half<M::Slot>, signal: Signal) -> bool {
        half.meta.has(Meta::AWAITS_SYN_ACK)
            && signal.only_answers()
            && signal.is_answer_to(Facts(half.slot.load(place::FACTS)).mark())
    }

    /// The facts of the forward half of the connection whose reply half is at `index`, and the generation that its
    /// backend had.
    #[inline(always)]
    pub fn begun(&self, index: u32) -> Option<(Facts, u16)> {
        let link = Link(self.memory.slot(index)?.load(place::LINK));
        let forward = self.memory.slot(link.index())?;
        Some((Facts(forward.load(place::FACTS)), link.generation()))
    }

    /// Returns whether a reset is of who can know the connection: the backend's, in answer to a SYN; or the client's,
    /// who has got the backend's answer to one.
    #[inline(always)]
    #[expect(clippy::unused_self, reason = "it is asked like the others")]
    pub(super) fn is_proved_reset(
        &self,
        half: &Half<M::Slot>,
        other: &Half<M::Slot>,
        signal: Signal,
    ) -> bool {
        match half.meta.role() {
            Role::Forward => {
                let number = Facts(other.slot.load(place::FACTS)).mark();
                other.meta.has(Meta::CHALLENGED) && signal.number() == number
            }
            Role::Reply => {
                let number = Facts(half.slot.load(place::FACTS)).mark();
                half.meta.has(Meta::AWAITS_SYN_ACK) && signal.is_answer_to(number)
            }
        }
    }
}
