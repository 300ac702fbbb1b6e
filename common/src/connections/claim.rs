//! Finding a slot for a new half: a free one, or one whose connection is given up for it.

use super::{
    Hints, Key, Kind, Memory, Meta, Role, Room, Slot, Table, Wide,
    pair::{Half, Other, in_order, release},
    slot::place,
    survey::{DOUBTFUL, FREE, INDEX, NOBODY, OVER, PLENTY, YOUNG},
};

/// How far from its home a half may be: what eight bits hold.
pub const REACH: u32 = 255;

/// How many slots are looked at before one gives way whose connection may be there, if those near
/// are mostly of one kind; else all in reach are.
const FAR: u32 = 49;

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
    /// Whether it is at home in the next slot instead.
    pub spilled: bool,
}

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Claims a slot for a half with this key: near its home a free one, or else the one that has been
    /// silent for the longest of those near that are over, or else unassured or doubtful; a free one
    /// farther away if there is none. `None` if all in reach are assured.
    #[inline(always)]
    pub fn claim(&self, key: &Key<F>, now: u32) -> Option<Claim<M::Slot>> {
        let home = self.home(key);
        let slot = self.memory.slot(home)?;
        let hints = Hints(slot.load(place::HINTS));
        // The forward half's slot is claimed first and entered last: its own reply half may be at home
        // here too, and must not take its place.
        let spilled = !hints.has_places(match key.role() {
            Role::Forward => 2,
            Role::Reply => 1,
        });
        // Nearly always the home is free, and then nothing is searched.
        let meta = Meta(slot.load(place::META));
        if !spilled && meta.kind() == Kind::Free {
            let taken = meta.taken(0);
            if slot.exchange(place::META, meta.0, taken.0) {
                return Some(Claim {
                    index: home,
                    slot,
                    meta: taken,
                    spilled,
                });
            }
        }
        let begin = home + u32::from(spilled);
        let mut taken = 0;
        let mut index = NOBODY;
        for _ in 0..SEARCHES {
            let near = M::survey_near(self, begin, now);
            let mut gives_way = (near >> 32) as u32;
            index = near as u32;
            if index != NOBODY {
                taken = M::dismiss(self, index, begin, now);
            }
            // Whose connection may be there stays if there is somebody better farther away.
            if taken == 0 && gives_way & (YOUNG | DOUBTFUL) != 0 {
                let end = if gives_way != NOBODY && gives_way & PLENTY != 0 {
                    FAR
                } else {
                    REACH + 1
                };
                let far = M::survey(self, begin, begin + end, now);
                gives_way = (far >> 32) as u32;
                index = far as u32;
                if index != NOBODY {
                    taken = M::dismiss(self, index, begin, now);
                }
            }
            if taken == 0 && gives_way != NOBODY {
                index = gives_way;
                taken = M::dismiss(self, index, begin, now);
            }
            if taken != 0 || index == NOBODY {
                break;
            }
        }
        if taken == 0 {
            return None;
        }
        index &= INDEX;
        Some(Claim {
            index,
            slot: self.memory.slot(index)?,
            meta: Meta(taken),
            spilled,
        })
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
        if room >= Room::Doubtful {
            self.correct(&pair);
        }
        let least = if seen & OVER != 0 {
            Room::Over
        } else if seen & DOUBTFUL == 0 {
            Room::Unassured
        } else {
            Room::Doubtful
        };
        if room > least {
            return None;
        }
        // The owner's half decides.
        let is_forward = meta.role() == Role::Forward;
        let forward = self.take(pair.forward, if is_forward { distance } else { 0 })?;
        if room > Room::Over && room != Room::Doubtful {
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
