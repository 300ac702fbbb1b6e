//! Finding a slot for a new half: a free one, or one whose connection is given up for it.

use super::{
    Hints, Key, Kind, Memory, Meta, Phase, Role, Room, Slot, Table, Times, Wide,
    pair::{Half, Other, in_order, release},
    slot::place,
};

/// How far from its home a half may be: what eight bits hold.
pub const REACH: u32 = 255;

/// How far a slot is searched that nobody has, where one is found that somebody can be asked for.
const NEAR: u32 = 16;

/// How often the search begins again when what it chose has changed meanwhile.
const SEARCHES: u32 = 3;

/// A slot that is ours, for a half with a certain key.
#[derive(Debug, Clone, Copy)]
pub struct Claim<S> {
    /// The slot's index.
    pub index: u32,
    /// The slot.
    pub slot: S,
    /// Busy, with the version that the half will have.
    pub meta: Meta,
    /// The home of its key.
    pub home: u32,
    /// Whether it is at home in the next slot instead.
    pub spilled: bool,
}

/// Somebody who may have to give way.
#[derive(Clone, Copy)]
struct Candidate {
    index: u32,
    idle: u32,
}

const NOBODY: Candidate = Candidate {
    index: u32::MAX,
    idle: 0,
};

impl Candidate {
    /// The one of the two that has been silent for longer.
    #[inline(always)]
    fn or(&mut self, index: u32, idle: u32) {
        if self.index == NOBODY.index || idle > self.idle {
            *self = Self { index, idle };
        }
    }
}

impl<F: Wide, M: Memory> Table<'_, F, M> {
    /// Claims a slot for a half with this key: near its home a free one, or else the one that has been
    /// silent for the longest of those near that are over, or else unassured; a free one farther away if
    /// there is none. `None` if all in reach are assured.
    #[inline(always)]
    pub fn claim(&self, key: &Key<F>, now: u32) -> Option<Claim<M::Slot>> {
        let home = self.home(key);
        let hints = Hints(self.memory.slot(home)?.load(place::HINTS));
        let spilled = !hints.has_place();
        let begin = home + u32::from(spilled);
        for _ in 0..SEARCHES {
            let taken = match self.search_room(begin, now) {
                Found::Free(half) => {
                    let distance = half.index - begin;
                    self.take(half, distance).map(|meta| (half, meta))
                }
                Found::Taken { over, unassured } => self
                    .dismiss(over, begin, now)
                    .or_else(|| self.dismiss(unassured, begin, now)),
                Found::Nothing => return None,
            };
            if let Some((half, meta)) = taken {
                return Some(Claim {
                    index: half.index,
                    slot: half.slot,
                    meta,
                    home,
                    spilled,
                });
            }
        }
        None
    }

    #[inline(always)]
    fn search_room(&self, begin: u32, now: u32) -> Found<M::Slot> {
        let (mut over, mut unassured) = (NOBODY, NOBODY);
        for distance in 0..=REACH {
            let index = begin + distance;
            let Some(slot) = self.memory.slot(index) else {
                break;
            };
            let meta = Meta(slot.load(place::META));
            match meta.kind() {
                Kind::Free => return Found::Free(Half { index, slot, meta }),
                Kind::Live => {
                    let idle = Times(slot.load(place::TIMES)).idle(now);
                    if idle > self.timeouts.of(Phase::longest(meta)) || may_be_over(meta) {
                        over.or(index, idle);
                    } else if !meta.has(Meta::ASSURED) {
                        unassured.or(index, idle);
                    }
                }
                Kind::Busy | Kind::Pending => {}
            }
            let found = over.index & unassured.index != NOBODY.index;
            if found && distance >= NEAR {
                break;
            }
        }
        if over.index & unassured.index == NOBODY.index {
            return Found::Nothing;
        }
        Found::Taken { over, unassured }
    }

    /// Ends the candidate's connection if it may be, and takes the slot of the half that was found.
    #[inline(always)]
    fn dismiss(
        &self,
        candidate: Candidate,
        begin: u32,
        now: u32,
    ) -> Option<(Half<M::Slot>, Meta)> {
        let index = candidate.index;
        let slot = self.memory.slot(index)?;
        let meta = Meta(slot.load(place::META));
        if !meta.is_live() {
            return None;
        }
        let half = Half { index, slot, meta };
        let distance = index - begin;
        let other = match self.other(slot) {
            Other::Live(other) => other,
            Other::Busy => return None,
            Other::Gone => return self.take(half, distance).map(|taken| (half, taken)),
        };
        let pair = in_order(half, other);
        if self.room(&pair, now) == Room::Never {
            self.correct(&pair);
            return None;
        }
        let taken = match meta.role() {
            Role::Forward => {
                let taken = self.take(pair.forward, distance)?;
                self.drop_half(pair.reply);
                Some(taken)
            }
            Role::Reply => {
                let forward = self.take(pair.forward, 0)?;
                let taken = self.take_ended(pair.reply, distance);
                release(pair.forward.slot, forward);
                taken
            }
        };
        taken.map(|taken| (half, taken))
    }

    /// Gives back a slot that no half has been entered in.
    #[inline(always)]
    pub fn give_back(&self, claim: &Claim<M::Slot>) {
        self.erase_hint(claim.index, claim.meta.distance());
        release(claim.slot, claim.meta);
    }
}

/// What a search has found.
enum Found<S> {
    Free(Half<S>),
    /// Nobody's, but some may give way.
    Taken {
        over: Candidate,
        unassured: Candidate,
    },
    Nothing,
}

/// Whether a half's connection may be over: the other half tells.
#[inline(always)]
const fn may_be_over(meta: Meta) -> bool {
    meta.has_any(Meta::FIN | Meta::RESET | Meta::PEER_RESET)
}
