//! A connection as the pair of its halves: judged together, ended together.

use crate::TCP;

use super::{
    Hints, Kind, Link, Memory, Meta, Phase, Role, Room, Slot, Table, Times, Wide, slot::place,
};

/// Tries of an exchange that only a packet of the same half, or a neighbour that enters or leaves, can
/// make fail. Who has had that many gives up, which costs a line of reading, never a connection.
pub(super) const TRIES: u32 = 4;

/// One half, as it was when it was read.
#[derive(Debug, Clone, Copy)]
pub struct Half<S> {
    /// Its index in the table.
    pub index: u32,
    /// The slot itself.
    pub slot: S,
    /// Its first word.
    pub meta: Meta,
}

/// Both halves of a connection.
#[derive(Debug, Clone, Copy)]
pub struct Pair<S> {
    /// The client's half.
    pub forward: Half<S>,
    /// The backend's half.
    pub reply: Half<S>,
}

/// The slot at the other end of a half's link.
#[derive(Debug, Clone, Copy)]
pub enum Other<S> {
    /// The other half.
    Live(Half<S>),
    /// The other half, which is not live yet or is just being ended.
    Busy,
    /// Not the other half: it is gone.
    Gone,
}

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Returns the slot at the other end.
    #[inline(always)]
    pub fn other(&self, slot: M::Slot) -> Other<M::Slot> {
        let link = Link(slot.load(place::LINK));
        let index = link.index();
        let Some(slot) = self.memory.slot(index) else {
            return Other::Gone;
        };
        let meta = Meta(slot.load(place::META));
        if meta.version() != link.version() {
            return Other::Gone;
        }
        match meta.kind() {
            Kind::Live => Other::Live(Half { index, slot, meta }),
            Kind::Busy | Kind::Pending => Other::Busy,
            Kind::Free => Other::Gone,
        }
    }

    /// The connection of this half, if the other one is live.
    #[inline(always)]
    pub fn pair(&self, half: Half<M::Slot>) -> Option<Pair<M::Slot>> {
        let Other::Live(other) = self.other(half.slot) else {
            return None;
        };
        Some(in_order(half, other))
    }

    /// Returns the number of ticks since the last packet of either side.
    #[inline(always)]
    pub fn idle(&self, pair: &Pair<M::Slot>, now: u32) -> u32 {
        let idle = |half: &Half<M::Slot>| Times(half.slot.load(place::TIMES)).idle(now);
        idle(&pair.forward).min(idle(&pair.reply))
    }

    /// Makes this half as young as its connection is. It may have been silent for long while the other
    /// one has just spoken: an answer is on its way, or none ever comes.
    #[inline(always)]
    pub(super) fn rejuvenate(&self, half: Half<M::Slot>, pair: &Pair<M::Slot>, now: u32) {
        let times = Times(half.slot.load(place::TIMES));
        let idle = self.idle(pair, now);
        if times.idle(now) > idle {
            // By exchange: if the slot is another half's by now, this is not its time.
            let young = times.at(now.wrapping_sub(idle));
            half.slot.exchange(place::TIMES, times.0, young.0);
        }
    }

    /// Returns the reason for which the connection may be given up.
    #[inline(always)]
    pub fn room(&self, pair: &Pair<M::Slot>, now: u32) -> Room {
        let (forward, reply) = (pair.forward.meta, pair.reply.meta);
        let (phase, room) = match Phase::before_reset(forward, reply) {
            Some(before) if before.room() == Room::Never => (before, Room::Doubtful),
            _ => {
                let phase = Phase::of(forward, reply);
                match phase.room() {
                    Room::Never if reply.has(Meta::AWAITS_FIN_ACK) => (phase, Room::Doubtful),
                    room => (phase, room),
                }
            }
        };
        if self.lasts(pair, phase, now) {
            room
        } else {
            Room::Expired
        }
    }

    /// For how many ticks the connection's time has been over; 0 if it is not.
    #[inline(always)]
    pub fn overdue(&self, pair: &Pair<M::Slot>, now: u32) -> u32 {
        let phase = Phase::of(pair.forward.meta, pair.reply.meta);
        self.idle(pair, now).saturating_sub(self.timeouts.of(phase))
    }

    /// Returns whether the time of this half's connection is over; if so, it is ended.
    ///
    /// A reset may have been anybody's: no side checks the sequence number of one that another side
    /// is sent. So any other packet finds an established connection that was reset, and revives it. An
    /// association of SCTP is over as soon as another is opened with its tuple (`opens`).
    #[inline(always)]
    pub fn expire_here(&self, index: u32, meta: u64, opens: bool, now: u32) -> bool {
        let Some(slot) = self.memory.slot(index) else {
            return true;
        };
        let meta = Meta(meta);
        let half = Half { index, slot, meta };
        match self.other(half.slot) {
            Other::Gone if self.has_died_alone(&half, now) => {
                self.free(half);
                true
            }
            Other::Busy | Other::Gone => false,
            Other::Live(other) => {
                let pair = in_order(half, other);
                let phase = Phase::of(pair.forward.meta, pair.reply.meta);
                if self.lasts(&pair, phase, now) {
                    return false;
                }
                let before = Phase::before_reset(pair.forward.meta, pair.reply.meta);
                let opens = opens && meta.protocol() != TCP;
                if !opens && before.is_some_and(|phase| self.lasts(&pair, phase, now)) {
                    return false;
                }
                M::lapse(self, index, meta.0);
                true
            }
        }
    }

    /// Ends the connection of this half, whatever it is.
    #[inline(always)]
    pub fn forget_here(&self, index: u32, meta: u64) {
        let Some(slot) = self.memory.slot(index) else {
            return;
        };
        // A packet of either side may be noted in between.
        for _ in 0..TRIES {
            let now = Meta(slot.load(place::META));
            if !now.is_same_half(Meta(meta)) {
                return;
            }
            let half = Half {
                index,
                slot,
                meta: now,
            };
            let is_done = match self.other(slot) {
                Other::Busy => true,
                Other::Gone => self.free(half),
                Other::Live(other) => self.end(&in_order(half, other)),
            };
            if is_done {
                return;
            }
        }
    }

    /// Returns whether the connection would not be over yet in this phase.
    #[inline(always)]
    pub(super) fn lasts(&self, pair: &Pair<M::Slot>, phase: Phase, now: u32) -> bool {
        self.idle(pair, now) <= self.timeouts.of(phase)
    }

    /// Ends the connection, unless it has changed since it was read; gives whether it did.
    #[inline(always)]
    pub fn end(&self, pair: &Pair<M::Slot>) -> bool {
        let Some(forward) = self.take(pair.forward, 0) else {
            return false;
        };
        self.drop_half(pair.reply);
        release(pair.forward.slot, forward);
        true
    }

    /// Takes the slot of a half, unless it has changed; gives what the owner has then.
    #[inline(always)]
    pub(super) fn take(&self, half: Half<M::Slot>, distance: u32) -> Option<Meta> {
        let taken = half.meta.taken(distance);
        let mine = half.slot.exchange(place::META, half.meta.0, taken.0);
        if !mine {
            return None;
        }
        self.erase_hint(half.index, half.meta.distance());
        Some(taken)
    }

    /// Takes a half whose connection has been ended by us, whatever it sees meanwhile.
    #[inline(always)]
    pub(super) fn take_ended(&self, half: Half<M::Slot>, distance: u32) -> Option<Meta> {
        let mut half = half;
        for _ in 0..TRIES {
            if let Some(taken) = self.take(half, distance) {
                return Some(taken);
            }
            let meta = Meta(half.slot.load(place::META));
            if !meta.is_same_half(half.meta) {
                return None;
            }
            half.meta = meta;
        }
        None
    }

    /// Frees a half whose connection has been ended by us.
    #[inline(always)]
    pub(super) fn drop_half(&self, half: Half<M::Slot>) {
        if let Some(taken) = self.take_ended(half, 0) {
            release(half.slot, taken);
        }
    }

    /// Frees a half that has no other, unless it has changed since it was read; gives whether it did.
    #[inline(always)]
    fn free(&self, half: Half<M::Slot>) -> bool {
        let Some(taken) = self.take(half, 0) else {
            return false;
        };
        release(half.slot, taken);
        true
    }

    /// Erases the hint to a slot that is ours.
    #[inline(always)]
    pub(super) fn erase_hint(&self, index: u32, distance: u32) {
        if distance == 0 {
            return;
        }
        let Some(home) = self.memory.slot(index.wrapping_sub(distance)) else {
            return;
        };
        for _ in 0..TRIES {
            let hints = Hints(home.load(place::HINTS));
            let erased = hints.without(distance);
            if erased == hints || home.exchange(place::HINTS, hints.0, erased.0) {
                return;
            }
        }
    }
}

/// Leaves a slot that is ours.
#[inline(always)]
pub(super) fn release<S: Slot>(slot: S, taken: Meta) {
    slot.store(place::META, taken.freed().0);
}

#[inline(always)]
pub(super) fn in_order<S>(half: Half<S>, other: Half<S>) -> Pair<S> {
    match half.meta.role() {
        Role::Forward => Pair {
            forward: half,
            reply: other,
        },
        Role::Reply => Pair {
            forward: other,
            reply: half,
        },
    }
}
