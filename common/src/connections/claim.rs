//! Finding a slot for a new half: a free one, or one whose connection is given up for it.

use super::{
    Hints, Key, Kind, Memory, Meta, Role, Room, Slot, Survey, Table, Wide,
    pair::{Half, Other, in_order, release},
    slot::place,
    survey::{DOUBTFUL, FREE, LAST, OVER, PLENTY, YOUNG, best_of, idle_of, index_of},
};

/// Maximum distance of a half from its home: what eight bits hold.
pub const REACH: u32 = 255;

/// Number of slots that are looked at before one gives way whose connection may be there, if those near are mostly of
/// one kind; else all in reach are.
const FAR: u32 = 49;

/// Number of searches for a slot, as long as the chosen one has changed meanwhile or is younger than it seemed.
const SEARCHES: u32 = 4;

/// A slot that is ours, for a half with a certain key.
#[derive(Debug, Clone, Copy)]
pub struct Claim<S> {
    /// The slot's index.
    pub index: u32,
    /// The slot.
    pub slot: S,
    /// Busy, with the version that the half will have.
    pub meta: Meta,
    /// True if it is at home in the next slot instead.
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
        for search in 1..=SEARCHES {
            let mut seen = Survey::NOTHING;
            if spilled {
                seen = best_of(M::survey_crowd(self, begin, now));
            }
            if seen == Survey::NOTHING {
                seen = best_of(M::survey_near(self, begin, now));
                // One whose connection may be there stays if there is a better one farther away.
                if seen == Survey::NOTHING || seen & (YOUNG | DOUBTFUL) != 0 {
                    let end = if seen & PLENTY != 0 { FAR } else { REACH + 1 };
                    seen = best_of(M::survey(self, begin, begin + end, now));
                }
            }
            if seen == Survey::NOTHING {
                break;
            }
            if search == SEARCHES {
                seen |= LAST;
            }
            let taken = M::dismiss(self, seen, begin, now);
            if taken != 0 {
                let index = index_of(seen, begin);
                return Some(Claim {
                    index,
                    slot: self.memory.slot(index)?,
                    meta: Meta(taken),
                    spilled,
                });
            }
        }
        None
    }

    /// Takes the slot that was `seen` for a half that is at home at `begin`: a free one, or one whose connection may be
    /// given up, and is ended. Returns the owner's [`Meta`], or 0: also if it is no longer what was seen of it, since a
    /// connection may have begun there or had a packet just now.
    #[inline(always)]
    pub fn dismiss_here(&self, seen: u64, begin: u32, now: u32) -> u64 {
        let taken = self.try_dismiss(seen, begin, now);
        taken.map_or(0, |taken| taken.0)
    }

    #[inline(always)]
    fn try_dismiss(&self, seen: u64, begin: u32, now: u32) -> Option<Meta> {
        let index = index_of(seen, begin);
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
        if room > Room::Over {
            self.rejuvenate(half, &pair, now);
        }
        let is_young = self.idle(&pair, now) < idle_of(seen);
        if room > least || room > Room::Over && is_young && seen & LAST == 0 {
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
