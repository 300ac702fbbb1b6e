//! Finding a slot for a new half: a free one, or one whose connection is given up for it.

use super::{
    Hints, Key, Kind, Memory, Meta, Phase, Role, Room, Slot, Table, Times, Wanted, Wide,
    pair::{Half, Other, in_order, release},
    slot::place,
};

/// How far from its home a half may be: what eight bits hold.
pub const REACH: u32 = 255;

/// How many slots are compared to find the one that gives way; of those farther away, the first does.
const NEAR: u32 = 16;

/// How far a free slot is searched before somebody who has just begun has to give way.
const FAR: u32 = 48;

/// How often the search begins again when what it chose has changed meanwhile.
const SEARCHES: u32 = 2;

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

/// No slot's index.
const NOBODY: u32 = u32::MAX;

/// Bits above every index, for what was seen of the slot: that it was free,
const FREE: u32 = 1 << 31;
/// that its connection may be over,
const OVER: u32 = 1 << 30;
/// that its connection is unassured and has been silent for no longer than a handshake may take.
const YOUNG: u32 = 1 << 29;
/// The index.
const INDEX: u32 = YOUNG - 1;

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Claims a slot for a half with this key: near its home a free one, or else the one that has been
    /// silent for the longest of those near that are over, or else unassured; a free one farther away if
    /// there is none. `None` if all in reach are assured.
    #[inline(always)]
    pub fn claim(&self, key: &Key<F>, now: u32) -> Option<Claim<M::Slot>> {
        let home = self.home(key);
        let hints = Hints(self.memory.slot(home)?.load(place::HINTS));
        // The forward half's slot is claimed first and entered last: its own reply half may be at home
        // here too, and must not take its place.
        let spilled = !hints.has_places(match key.role() {
            Role::Forward => 2,
            Role::Reply => 1,
        });
        let begin = home + u32::from(spilled);
        let mut taken = 0;
        let mut index = NOBODY;
        for _ in 0..SEARCHES {
            let near = M::search_near(self, begin, now);
            index = near as u32;
            if index != NOBODY {
                taken = M::dismiss(self, index, begin, now);
            }
            let unassured = (near >> 32) as u32;
            if taken == 0 && unassured != NOBODY {
                // Who has just begun stays if there is a free slot farther away.
                index = unassured & INDEX;
                if unassured & YOUNG != 0 {
                    index = self
                        .memory
                        .first_of(Wanted::Free, begin + NEAR, begin + FAR)
                        .map_or(index, |free| free | FREE);
                }
                taken = M::dismiss(self, index, begin, now);
            }
            if taken != 0 || near == u64::MAX {
                break;
            }
        }
        if taken == 0 {
            index = self
                .memory
                .first_of(Wanted::GivesWay, begin + NEAR, begin + REACH)?;
            taken = M::dismiss(self, index, begin, now);
        }
        if taken == 0 {
            return None;
        }
        index &= INDEX;
        Some(Claim {
            index,
            slot: self.memory.slot(index)?,
            meta: Meta(taken),
            home,
            spilled,
        })
    }

    /// Looks for a slot near `begin`. Gives, in the lower half, the index of a free one or of the one
    /// that has been silent for the longest of those that may be over; in the upper half that of those
    /// that are unassured; all bits where there is none. The bits above the index say what was seen.
    #[inline(always)]
    pub fn search_near_here(&self, begin: u32, now: u32) -> u64 {
        let (mut over, mut over_idle) = (NOBODY, 0);
        let (mut unassured, mut unassured_idle) = (NOBODY, 0);
        for distance in 0..NEAR {
            let index = begin + distance;
            let Some(slot) = self.memory.slot(index) else {
                break;
            };
            let meta = Meta(slot.load(place::META));
            match meta.kind() {
                Kind::Free => return u64::from(index | FREE) | u64::from(NOBODY) << 32,
                Kind::Live => {
                    let idle = Times(slot.load(place::TIMES)).idle(now);
                    // Whoever sent a reset, an established connection keeps its slot for now.
                    let ends = meta.seen() & (Meta::FIN | Meta::ASSURED);
                    let is_over = meta.may_be_over() && ends != Meta::ASSURED;
                    if is_over || idle > self.timeouts.of(Phase::longest(meta)) {
                        if over == NOBODY || idle > over_idle {
                            (over, over_idle) = (index | OVER, idle);
                        }
                    } else if !meta.has(Meta::ASSURED)
                        && (unassured == NOBODY || idle > unassured_idle)
                    {
                        (unassured, unassured_idle) = (index, idle);
                    }
                }
                Kind::Busy | Kind::Pending => {}
            }
        }
        if unassured != NOBODY && unassured_idle < self.timeouts.lasting {
            unassured |= YOUNG;
        }
        u64::from(over) | u64::from(unassured) << 32
    }

    /// Takes a slot for a half that is at home at `begin`: a free one, or one whose connection may be
    /// given up, and is ended. Gives the owner's [`Meta`], or 0: also if it is no longer what the bits
    /// above the index say, since somebody may have begun there just now.
    #[inline(always)]
    pub fn dismiss_here(&self, index: u32, begin: u32, now: u32) -> u64 {
        let taken = self.try_dismiss(index, begin, now);
        taken.map_or(0, |taken| taken.0)
    }

    #[inline(always)]
    fn try_dismiss(&self, seen: u32, begin: u32, now: u32) -> Option<Meta> {
        let index = seen & INDEX;
        let slot = self.memory.slot(index)?;
        let meta = Meta(slot.load(place::META));
        let half = Half { index, slot, meta };
        let distance = index.wrapping_sub(begin);
        match meta.kind() {
            Kind::Live => {}
            Kind::Free => return self.take(half, distance),
            Kind::Busy | Kind::Pending => return None,
        }
        if seen & FREE != 0 {
            return None;
        }
        let other = match self.other(slot) {
            Other::Live(other) => other,
            Other::Busy => return None,
            Other::Gone => return self.take(half, distance),
        };
        let pair = in_order(half, other);
        let room = self.room(&pair, now);
        if room == Room::Never {
            self.correct(&pair);
        }
        let least = if seen & OVER == 0 {
            Room::Unassured
        } else {
            Room::Over
        };
        if room > least {
            return None;
        }
        // The owner's half decides.
        let is_forward = meta.role() == Role::Forward;
        let forward = self.take(pair.forward, if is_forward { distance } else { 0 })?;
        if room > Room::Over {
            self.memory.dropped_early();
        }
        let reply = self.take_ended(pair.reply, if is_forward { 0 } else { distance });
        if is_forward {
            if let Some(reply) = reply {
                release(pair.reply.slot, reply);
            }
            Some(forward)
        } else {
            release(pair.forward.slot, forward);
            reply
        }
    }

    /// Gives back a slot that no half has been entered in.
    #[inline(always)]
    pub fn give_back(&self, claim: &Claim<M::Slot>) {
        M::leave(self, claim.index, claim.meta.0);
    }

    /// Leaves a slot that is ours; or, if `meta` is that of a live half, ends that: its owner is ours.
    #[inline(always)]
    pub fn leave_here(&self, index: u32, meta: u64) {
        let meta = Meta(meta);
        let Some(slot) = self.memory.slot(index) else {
            return;
        };
        if meta.is_live() {
            self.drop_half(Half { index, slot, meta });
        } else {
            self.erase_hint(index, meta.distance());
            release(slot, meta);
        }
    }
}
