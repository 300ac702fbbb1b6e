//! The choice of the slot that gives way, of several.

use super::{Hints, Kind, Memory, Meta, Phase, Slot, Table, Times, hints::PLACES, slot::place};

/// Number of slots that are looked at first.
pub(super) const NEAR: u32 = 16;

/// Bits for a slot's distance from the first one.
const DISTANCE: u64 = 0xff;
/// Bits above the distance, for what was seen of the slot: that it was free,
pub(super) const FREE: u64 = 1 << 8;
/// that its connection may be over,
pub(super) const OVER: u64 = 1 << 9;
/// that its connection is unassured and has been silent for no longer than a handshake may take,
pub(super) const YOUNG: u64 = 1 << 10;
/// that its connection is doubtful,
pub(super) const DOUBTFUL: u64 = 1 << 11;
/// that there are many more of its kind than of the other of these two,
pub(super) const PLENTY: u64 = 1 << 12;
/// and that no other is looked for if it does not give way.
pub(super) const LAST: u64 = 1 << 13;

/// The index of the slot that was seen of those from `begin` on.
#[inline(always)]
pub const fn index_of(seen: u64, begin: u32) -> u32 {
    begin.wrapping_add((seen & DISTANCE) as u32)
}

/// For how many ticks its half had been silent, of one that is unassured or doubtful.
#[inline(always)]
pub(super) const fn idle_of(seen: u64) -> u32 {
    ((seen >> 32) as u32).saturating_sub(1)
}

/// The slot that is taken by this [`Survey::verdict`]: a free one or one that may be over, or else one
/// that is unassured or doubtful; [`Survey::NOTHING`] if there is none.
#[inline(always)]
pub(super) const fn best_of(verdict: u64) -> u64 {
    let over = verdict & 0xffff;
    if over != 0 {
        return over;
    }
    if verdict >> 32 == 0 {
        return Survey::NOTHING;
    }
    (verdict >> 16) & 0xffff | verdict & !0xffff_ffff
}

/// The result of a look at some slots. A slot is one word: its distance with the bits above, and in the upper half the
/// number of ticks for which it has been silent, plus 1; so the larger word gives way first, and none is
/// [`Survey::NOTHING`].
#[derive(Debug, Clone, Copy)]
pub struct Survey {
    /// A free slot, or the one that has been silent for the longest of those that may be over.
    over: u64,
    /// The same of the unassured ones,
    unassured: u64,
    /// and of the doubtful ones.
    doubtful: u64,
    /// Number of the doubtful ones minus that of the unassured.
    more_doubtful: i32,
    /// The first slot.
    begin: u32,
}

impl Survey {
    /// Of no slot yet, and from `begin` on. `nothing` is [`Self::NOTHING`]: where the caller hands it over, the
    /// verifier does not know it, and all states of a loop are alike to it. Else it follows each of them.
    #[inline(always)]
    pub const fn new(begin: u32, nothing: u64) -> Self {
        Self {
            over: nothing,
            unassured: nothing,
            doubtful: nothing,
            more_doubtful: (nothing >> 32) as i32,
            begin,
        }
    }

    /// See [`Self::new`].
    pub const NOTHING: u64 = 0;

    /// Returns the slot that is free or may be over, in the lowest 16 bits, 0 if there is none; in the
    /// next 16 the one that is unassured or doubtful, and above these its time of silence: 0 if
    /// there is none. `lasting`: the time for which a handshake may be silent.
    ///
    /// It is for [`best_of`] to decide between these two: here the verifier would follow all ways in
    /// which either has come about.
    ///
    /// A flood has many that have just begun among few doubtful ones, which may be open. Where clients
    /// end their connections by resets there are many doubtful ones, and few in a handshake. So of
    /// these two kinds that gives way of which there are more.
    #[inline(always)]
    pub const fn verdict(&self, lasting: u32) -> u64 {
        let mut gives_way = self.unassured;
        if self.unassured >> 32 <= lasting as u64 {
            if self.more_doubtful > 0 {
                gives_way = self.doubtful | DOUBTFUL;
            } else {
                gives_way |= YOUNG;
            }
            if self.more_doubtful.unsigned_abs() >= NEAR / 2 {
                gives_way |= PLENTY;
            }
        }
        self.over & 0xffff | (gives_way & 0xffff) << 16 | gives_way & !0xffff_ffff
    }
}

impl<M: Memory> Table<'_, M> {
    /// Looks at one more slot, so many from the first. Returns whether no other has to be looked at: it
    /// is free, or there are no more.
    #[inline(always)]
    pub fn look(&self, survey: &mut Survey, distance: u32, now: u32) -> bool {
        let index = survey.begin.wrapping_add(distance);
        let Some(slot) = self.memory().slot(index) else {
            return true;
        };
        let meta = Meta(slot.load(place::META));
        match meta.kind() {
            Kind::Free => {
                survey.over = u64::from(distance) | FREE;
                return true;
            }
            Kind::Live => {}
            Kind::Busy | Kind::Pending => return false,
        }
        let idle = Times(slot.load(place::TIMES)).idle(now);
        let seen = u64::from(distance) | (u64::from(idle) + 1) << 32;
        if meta.seems_over() || idle > self.timeouts.of(Phase::longest(meta)) {
            survey.over = survey.over.max(seen | OVER);
        } else if !meta.has(Meta::ASSURED) {
            survey.more_doubtful -= 1;
            survey.unassured = survey.unassured.max(seen);
        } else if meta.has_any(Meta::RESET | Meta::PEER_RESET) {
            survey.more_doubtful += 1;
            survey.doubtful = survey.doubtful.max(seen);
        }
        false
    }

    /// [`Survey::verdict`] of the slots from `begin` to before `end`, or to the first that is free.
    #[inline(always)]
    pub fn survey_here(&self, begin: u32, end: u32, now: u32) -> u64 {
        let mut survey = Survey::new(begin, Survey::NOTHING);
        for distance in 0..end - begin {
            if self.look(&mut survey, distance, now) {
                break;
            }
        }
        survey.verdict(self.timeouts.lasting)
    }

    /// The same of the first [`NEAR`].
    #[inline(always)]
    pub fn survey_near_here(&self, begin: u32, now: u32, nothing: u64) -> u64 {
        let mut survey = Survey::new(begin, nothing);
        for distance in 0..NEAR {
            if self.look(&mut survey, distance, now) {
                break;
            }
        }
        survey.verdict(self.timeouts.lasting)
    }

    /// The same of the slot `begin` and of those that it has hints to, if it has no place for two more:
    /// then one has to give way that has a place. Else of none.
    #[inline(always)]
    pub fn survey_crowd_here(&self, begin: u32, now: u32, nothing: u64) -> u64 {
        let mut survey = Survey::new(begin, nothing);
        let Some(home) = self.memory().slot(begin) else {
            return Survey::NOTHING;
        };
        let hints = Hints(home.load(place::HINTS));
        if hints.has_places(2) {
            return Survey::NOTHING;
        }
        let mut distances = hints.distances() << 8;
        for _ in 0..=PLACES {
            if self.look(&mut survey, distances as u32 & 0xff, now) {
                break;
            }
            distances >>= 8;
        }
        survey.verdict(self.timeouts.lasting)
    }

    /// For how long a handshake may be silent, in ticks.
    #[inline(always)]
    pub const fn lasting(&self) -> u32 {
        self.timeouts.lasting
    }
}
