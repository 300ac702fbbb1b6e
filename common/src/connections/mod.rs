//! Connection tracking in a table of our own: plain words in an array, no kernel hash, no lock and no sweeping.
//!
//! # Slots
//!
//! The table is an array of *slots*, one cache line each (two for IPv6). A connection has two of
//! them, its *halves*: the forward half is found by the client's packets, the reply half by the
//! backend's. Each has all that a packet of its direction needs, and a [`Link`] to the other one.
//!
//! A key's hash chooses its *home*, the slot where its half is looked for and put. A half whose home is taken goes to
//! the next free slot behind it, at most [`REACH`] away, and leaves the distance in the home's [`Hints`]. So an
//! established packet reads one line if its half is at home, two if it is not; and a packet of no connection one,
//! unless there are hints. The home of a key whose home has no room for a hint is the slot behind it ("spilled"). If
//! that has no room either, a half gives way that has a hint there.
//!
//! # Concurrent access
//!
//! Every word is read with acquire, written with release, and exchanged with both (see [`Slot`] for what that means on
//! each machine). The word [`Meta`] shows the owner of a slot:
//!
//! | kind | who may write the other words | next |
//! |---|---|---|
//! | free | none | busy, by exchange: the winner owns the slot |
//! | busy | the owner | pending, live or free, by the owner |
//! | pending | the owner; others see its key | live or free, by the owner |
//! | live | none, but for time and facts (see below) | busy, by exchange |
//!
//! **Reading.** The version in `Meta` grows whenever a slot becomes busy. A reader loads `Meta`, then
//! the key and the translation, then `Meta` again: if it was live with one version both times, all
//! that was between belongs to that one half, since its words were written before it became live
//! and are not written before it is busy. If not, the half that was sought has died meanwhile, and
//! the answer "not there" is the truth. A version of 23 bits comes back after 2^23 reuses of one slot: a
//! reader would have to stand still for as long (seconds) and to meet exactly that one.
//!
//! **Entering.** Of two CPUs with the same key one must win, in whatever slots they write it. So a half is entered by
//! an exchange of its home's `Hints`, which have a counter of all entries: read the hints; look for the key, also among
//! those pending; exchange the hints as they were read for ones with a higher count and, away from home, the distance.
//! If the exchange fails, another half entered or left meanwhile: begin again. The key is pending, and so to be seen by
//! rivals, before the exchange; it is live, and so to be believed, after it. Bounded tries; who needs more gives up,
//! and the packet is dropped as the kernel drops one that lost such a race.
//!
//! **Ownership.** The forward half owns the connection. A connection is ended by one exchange on the forward half's
//! `Meta`, from the state that was judged to busy: if a packet has just assured it, the exchange fails and the
//! connection stays. The winner of the exchange owns the reply half too, takes it by its version and frees both. A
//! reader may see the reply half a moment longer than the forward one, never the reverse for longer than the exchange
//! takes. A half whose link leads to another version has lost the other one. No code here makes that so; if another
//! program that writes into the memory does, the next packet of the half that is left enters the lost one anew, and
//! until then anybody may take it. A hint to the lost one's slot stays behind, and costs a look.
//!
//! A hint (home, distance) is written and erased only by the owner of the slot that it leads to.
//! So none is erased that a live half needs.
//!
//! **State** is per half: what packets of its direction have been seen (bits of `Meta`). Only the owner's `ASSURED`
//! decides; the reply half has a copy, so that most candidates for removal are judged without a look at their other
//! halves. A reset is noted at both halves, so that whichever side speaks next revives the connection.
//!
//! **Writes to live words.** Time: once a tick, half a word, by a plain store: a locked instruction would have every
//! packet wait for the line. If the slot was reused meanwhile, its new half has been seen just now, too. Who looks for
//! the oldest connection sees one half of each: if the other one is younger, the old half gets that time, by exchange,
//! and another one gives way. Facts, by exchange: the number that acknowledges the backend's SYN-ACK, in reply halves
//! only; a bit distinguishes those words from a forward half's.
//!
//! # Other machines
//!
//! x86 orders loads among themselves and stores among themselves: the programs' plain loads and
//! stores are acquires and releases there, and its exchange orders all. arm64 does not. There each load
//! has to be `load_acquire` and each store `store_release` (BPF ISA v4: Linux 6.15 with its arm64
//! JIT, LLVM 21), or, on older kernels, an exchange with fetch, which the JIT makes a full barrier, has to
//! stand between the first load of `Meta` and the others and again before the last, and in place
//! of the store that makes a half pending or live. That is a change of [`Slot`]'s implementation
//! alone; the model test runs under C11's rules, which are weaker than arm64's.

mod claim;
mod enter;
mod find;
mod hash;
mod hints;
mod key;
mod memory;
mod mend;
mod meta;
mod observe;
mod pair;
mod phase;
mod proof;
mod share;
mod signal;
mod slot;
mod snapshot;
mod survey;
#[cfg(test)]
mod tests;

pub use claim::{Claim, REACH};
pub use enter::{Connection, Refused};
pub use find::Hit;
pub use hash::Seeds;
pub use hints::Hints;
pub use key::{Key, Wide};
pub use memory::{Memory, Slot};
pub use meta::{Kind, Meta, Role};
pub use pair::{Half, Pair};
pub use phase::{Phase, Room, Timeouts};
pub use signal::Signal;
pub use slot::{Facts, LOOK, Link, Times, place};
pub use snapshot::{Seen, Snapshot};
pub use survey::{Survey, index_of};

/// A family's table: slots, and where keys are at home in them.
#[derive(Debug, Clone, Copy)]
pub struct Table<'a, M> {
    memory: M,
    homes: u32,
    seeds: &'a Seeds,
    timeouts: &'a Timeouts,
}

impl<'a, M: Memory> Table<'a, M> {
    /// The table in this memory, with [`homes_of`] as its number of homes.
    #[inline(always)]
    pub const fn new(memory: M, homes: u32, seeds: &'a Seeds, timeouts: &'a Timeouts) -> Self {
        Self {
            memory,
            homes,
            seeds,
            timeouts,
        }
    }

    /// The memory.
    #[inline(always)]
    pub const fn memory(&self) -> &M {
        &self.memory
    }

    /// Returns the key's home.
    #[inline(always)]
    pub fn home(&self, key: &Key<M::Family>) -> u32 {
        hash::home(self.seeds.hash(key), self.homes)
    }
}

/// Returns the number of slots of a table in which so many halves, all of them of established connections, are never
/// refused: at two thirds of its slots, [`REACH`] and the hints do not run out (the test
/// `established_connections_are_not_refused`). The last homes reach as far as the others.
pub const fn slots_for(halves: u32) -> u32 {
    halves + halves / 2 + REACH + 1
}

/// Returns the number of homes of a table of so many slots. In a small one many of those that are there to be reached
/// are homes too: it would have more slots for a home than that has hints. There the last homes reach less far, and far
/// enough: such a table is never as full.
pub const fn homes_of(slots: u32) -> u32 {
    let homes = slots.saturating_sub(REACH + 1);
    if homes == 0 {
        return 1;
    }
    homes + (REACH + 1 - LEAST_REACH).saturating_sub(homes / 4)
}

/// Minimum reach of the last home.
const LEAST_REACH: u32 = 32;
