//! Who of several slots gives way first.

use super::{Kind, Memory, Meta, Phase, Slot, Table, Times, slot::place};

/// How many slots are looked at first.
pub(super) const NEAR: u32 = 16;

/// No slot's index.
pub(super) const NOBODY: u32 = u32::MAX;

/// Bits above every index, for what was seen of the slot: that it was free,
pub(super) const FREE: u32 = 1 << 31;
/// that its connection may be over,
pub(super) const OVER: u32 = 1 << 30;
/// that its connection is unassured and has been silent for no longer than a handshake may take,
pub(super) const YOUNG: u32 = 1 << 29;
/// that its connection is doubtful,
pub(super) const DOUBTFUL: u32 = 1 << 28;
/// and that there are many more of its kind than of the other of these two.
pub(super) const PLENTY: u32 = 1 << 27;
/// The index.
pub const INDEX: u32 = PLENTY - 1;

/// What was seen of some slots. A slot is one word: its index with the bits above, and in the upper
/// half for how many ticks it has been silent, plus 1; so the larger word gives way first, and
/// [`Survey::NOTHING`] is smaller than all.
#[derive(Debug, Clone, Copy)]
pub struct Survey {
    /// A free slot, or the one that has been silent for the longest of those that may be over.
    over: u64,
    /// The same of the unassured ones,
    unassured: u64,
    /// and of the doubtful ones.
    doubtful: u64,
    /// How many more of the doubtful ones there are than of the unassured.
    more_doubtful: i32,
    /// The first slot.
    begin: u32,
}

impl Survey {
    /// Of no slot yet, and from `begin` on. `nothing` is [`Self::NOTHING`]: where the caller hands it over, the verifier does
    /// not know it, and all states of a loop are alike to it. Else it follows each of them.
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
    pub const NOTHING: u64 = NOBODY as u64;

    /// Gives, in the lower half, the index of a free slot or of one that may be over; in the upper half
    /// that of one that is unassured or doubtful; all bits where there is none. The bits above the
    /// index say what was seen. `lasting`: for how long a handshake may be silent.
    ///
    /// A flood has many that have just begun among few doubtful ones, which may be open. Where clients
    /// end their connections by resets there are many doubtful ones, and few in a handshake. So of
    /// these two kinds that gives way of which there are more.
    #[inline(always)]
    pub const fn verdict(&self, lasting: u32) -> u64 {
        let is_young = self.unassured >> 32 <= lasting as u64;
        let mut gives_way = self.unassured as u32;
        if is_young {
            if self.more_doubtful > 0 {
                gives_way = self.doubtful as u32 | DOUBTFUL;
            } else if gives_way != NOBODY {
                gives_way |= YOUNG;
            }
            if gives_way != NOBODY && self.more_doubtful.unsigned_abs() >= NEAR / 2 {
                gives_way |= PLENTY;
            }
        }
        self.over & 0xffff_ffff | (gives_way as u64) << 32
    }
}

impl<M: Memory> Table<'_, M> {
    /// Looks at one more slot, so many from the first. Gives whether no other has to be looked at: it is free, or there are
    /// no more.
    #[inline(always)]
    pub fn look(&self, survey: &mut Survey, distance: u32, now: u32) -> bool {
        let index = survey.begin.wrapping_add(distance);
        let Some(slot) = self.memory().slot(index) else {
            return true;
        };
        let meta = Meta(slot.load(place::META));
        match meta.kind() {
            Kind::Free => {
                survey.over = u64::from(index | FREE);
                return true;
            }
            Kind::Live => {}
            Kind::Busy | Kind::Pending => return false,
        }
        let idle = Times(slot.load(place::TIMES)).idle(now);
        let seen = u64::from(index) | (u64::from(idle) + 1) << 32;
        if meta.seems_over() || idle > self.timeouts.of(Phase::longest(meta)) {
            survey.over = survey.over.max(seen | u64::from(OVER));
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

    /// For how long a handshake may be silent, in ticks.
    #[inline(always)]
    pub const fn lasting(&self) -> u32 {
        self.timeouts.lasting
    }
}
