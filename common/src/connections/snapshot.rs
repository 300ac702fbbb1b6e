//! A connection as it is at one instant, to be listed, or carried to another table.

use crate::{SCTP, TCP, elapsed};

use super::{
    Connection, Facts, Half, Key, Link, Memory, Meta, Pair, Phase, Refused, Role, Slot, Table,
    Times, Wide,
    observe::{mark, set_mark},
    pair::TRIES,
    proof::CLAIMS,
    slot::place,
};

/// The state of one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// The bits of [`Meta`].
    pub bits: u16,
    /// The tick of the last packet.
    pub last: u32,
}

/// A connection as it was at one instant.
#[derive(Debug, Clone, Copy)]
pub struct Snapshot<F: Wide> {
    /// The connection as it was opened.
    pub connection: Connection<F>,
    /// The state of the client's direction.
    pub forward: Seen,
    /// The state of the backend's direction.
    pub reply: Seen,
    /// The reply half's mark, see [`Facts`].
    pub mark: u32,
}

impl<F: Wide> Snapshot<F> {
    /// Returns its phase.
    pub fn phase(&self) -> Phase {
        let [forward, reply] = self.halves();
        Phase::of(forward, reply)
    }

    /// Returns the first words of its halves, without version and distance.
    fn halves(&self) -> [Meta; 2] {
        let protocol = self.connection.forward.protocol();
        [
            (Role::Forward, self.forward.bits),
            (Role::Reply, self.reply.bits),
        ]
        .map(|(role, bits)| Meta(0).pending(protocol, role, self.connection.keeps_client(), bits))
    }

    /// Returns the number of ticks since the last packet of either side.
    pub fn idle(&self, now: u32) -> u32 {
        let idle = |seen: Seen| elapsed(seen.last, now);
        idle(self.forward).min(idle(self.reply))
    }

    /// Returns whether it is the same translation as `other`, if they are of the same client.
    pub fn is_of(&self, other: &Connection<F>) -> bool {
        self.connection.reply == other.reply
    }
}

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// The connection whose forward half is in this slot, whether its time is over or not; `None` if
    /// there is none, or it has changed hands while it was read.
    pub fn snapshot(&self, index: u32) -> Option<Snapshot<F>> {
        let slot = self.memory.slot(index)?;
        let meta = Meta(slot.load(place::META));
        if !meta.is_live() || meta.role() != Role::Forward {
            return None;
        }
        let pair = self.pair(Half { index, slot, meta })?;
        let key = |half: &Half<M::Slot>| Key::of_slot(half.slot);
        let facts = Facts(slot.load(place::FACTS));
        let seen = |half: &Half<M::Slot>| Seen {
            bits: half.meta.seen(),
            last: Times(half.slot.load(place::TIMES)).last_seen(),
        };
        let snapshot = Snapshot {
            connection: Connection {
                forward: key(&pair.forward),
                reply: key(&pair.reply),
                seen: meta.seen() & (Meta::OPENED | Meta::RULED),
                generation: Link(slot.load(place::LINK)).generation(),
                backend: facts.backend(),
                service: facts.service(),
                sequence: 0,
            },
            forward: seen(&pair.forward),
            reply: seen(&pair.reply),
            mark: Facts(pair.reply.slot.load(place::FACTS)).mark(),
        };
        let is_there =
            |half: &Half<M::Slot>| Meta(half.slot.load(place::META)).is_same_half(half.meta);
        (is_there(&pair.forward) && is_there(&pair.reply)).then_some(snapshot)
    }

    /// Returns whether its time is over.
    pub fn is_expired(&self, snapshot: &Snapshot<F>, now: u32) -> bool {
        self.is_silent_for(snapshot, snapshot.phase(), now)
    }

    /// For how many ticks its time has been over; 0 if it is not.
    pub fn overdue_by(&self, snapshot: &Snapshot<F>, now: u32) -> u32 {
        let idle = snapshot.idle(now);
        idle.saturating_sub(self.timeouts.of(snapshot.phase()))
    }

    /// Returns whether no packet of it finds it any more: a doubtful one may be open yet when its time is over.
    pub fn is_forgotten(&self, snapshot: &Snapshot<F>, now: u32) -> bool {
        let [forward, reply] = snapshot.halves();
        let before = Phase::before_reset(forward, reply);
        self.is_expired(snapshot, now)
            && before.is_none_or(|phase| self.is_silent_for(snapshot, phase, now))
    }

    fn is_silent_for(&self, snapshot: &Snapshot<F>, phase: Phase, now: u32) -> bool {
        snapshot.idle(now) > self.timeouts.of(phase)
    }

    /// The connection with this forward half, and the index of the slot that it is in.
    pub fn snapshot_of(&self, forward: &Key<F>) -> Option<(u32, Snapshot<F>)> {
        let index = self.find_half(forward)?.index;
        let snapshot = self.snapshot(index)?;
        (snapshot.connection.forward == *forward).then_some((index, snapshot))
    }

    /// Ends a connection, unless another one has its tuple meanwhile; gives whether it did.
    pub fn end_snapshot(&self, snapshot: &Snapshot<F>) -> bool {
        self.pair_of(&snapshot.connection)
            .is_some_and(|pair| self.end(&pair))
    }

    /// The two halves with these keys, if they are of one connection.
    fn pair_of(&self, connection: &Connection<F>) -> Option<Pair<M::Slot>> {
        let pair = self.pair(self.find_half(&connection.forward)?)?;
        (Key::of_slot(pair.reply.slot) == connection.reply).then_some(pair)
    }

    /// Enters a connection as it is in another table.
    ///
    /// # Errors
    ///
    /// As [`Self::open`].
    pub fn carry(&self, snapshot: &Snapshot<F>, now: u32) -> Result<(), Refused> {
        let connection = Connection {
            // The bits that both halves have from the begin, so that it does not give way meanwhile.
            seen: snapshot.forward.bits & (Meta::OPENED | Meta::ASSURED | Meta::RULED),
            ..snapshot.connection
        };
        self.open(&connection, now)?;
        if let Some(pair) = self.pair_of(&connection) {
            // Their own date is that of their entering.
            date(pair.forward.slot, snapshot.forward.last);
            date(pair.reply.slot, snapshot.reply.last);
        }
        self.absorb(snapshot);
        Ok(())
    }

    /// Takes over what has been seen of a connection in another table, if it is here too.
    pub fn absorb(&self, other: &Snapshot<F>) {
        let Some(pair) = self.pair_of(&other.connection) else {
            return;
        };
        let Pair { forward, reply } = pair;
        for (half, seen) in [(forward, other.forward), (reply, other.reply)] {
            mark(half, seen.bits & !CLAIMS, 0);
            let times = Times(half.slot.load(place::TIMES));
            if elapsed(seen.last, times.last_seen()) == 0 {
                date(half.slot, seen.last);
            }
        }
        let own = Facts(reply.slot.load(place::FACTS)).mark();
        let is_kept = match reply.meta.protocol() {
            TCP => stage(reply.meta.seen()) > stage(other.reply.bits),
            SCTP => false,
            // That of the earlier packet, of which both may be the first.
            _ => elapsed(other.mark, own) == 0,
        };
        if !is_kept && mark(reply, 0, CLAIMS) {
            set_mark(reply, other.mark);
            mark(reply, other.reply.bits & CLAIMS, 0);
        }
    }
}

/// Returns the stage of the reply half of a TCP connection that has seen this: a later stage's mark is another number.
const fn stage(seen: u16) -> u8 {
    if seen & CLAIMS != 0 {
        3
    } else if seen & Meta::ASSURED != 0 {
        2
    } else {
        (seen & Meta::SYN_ACK != 0) as u8
    }
}

/// Dates a half, whatever packets do to it meanwhile.
fn date<S: Slot>(slot: S, last: u32) {
    for _ in 0..TRIES {
        let times = Times(slot.load(place::TIMES));
        if slot.exchange(place::TIMES, times.0, times.at(last).0) {
            return;
        }
    }
}
