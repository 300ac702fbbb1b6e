//! Mending: a connection of which one half is lost gets it back from the other one.
//!
//! The halves begin and end together, so one alone is lost only if another program has written into the table. The
//! processor with the first packet in a span of [`super::LOOK`] ticks of the half that is left looks for the other one,
//! and enters it anew if it is not there.

use crate::{SCTP, TCP};

use super::{
    Connection, Facts, Hints, Key, Kind, Link, Memory, Meta, Phase, Role, Signal, Slot, Table,
    Times, Wide,
    enter::write,
    pair::{Half, Other, TRIES},
    slot::place,
};

impl<F: Wide, M: Memory<Family = F>> Table<'_, M> {
    /// Returns whether a half that has lost its other one has had no packet for longer than its connection may
    /// be silent.
    #[inline(always)]
    pub(super) fn has_died_alone(&self, half: &Half<M::Slot>, now: u32) -> bool {
        let idle = Times(half.slot.load(place::TIMES)).idle(now);
        idle > self.timeouts.of(Phase::longest(half.meta))
    }

    /// Returns whether the other half of the one at `index`, in its use `version`, is lost or is not found: its
    /// home may have lost the hint to it.
    #[inline(always)]
    pub fn is_broken_here(&self, index: u32, version: u32) -> bool {
        let Some(half) = self.at(index, version) else {
            return false;
        };
        let other = match self.other(half.slot) {
            Other::Live(other) if leads_to(other.slot, &half) => other,
            Other::Busy => return false,
            Other::Live(_) | Other::Gone => return true,
        };
        let distance = other.meta.distance();
        if distance == 0 {
            return false;
        }
        let home = self.memory.slot(other.index.wrapping_sub(distance));
        home.is_none_or(|home| !Hints(home.load(place::HINTS)).has(distance))
    }

    /// Makes the connection of the half at `index`, in its use `version`, whole again if its other half is lost or is
    /// not found; `signal` is that of the packet that was found to be of it. Returns whether the half is still there:
    /// another connection may have got the other one's tuple.
    ///
    /// `connection` is where the keys are kept meanwhile; on the programs' stack they would be too much.
    #[inline(always)]
    pub fn mend_here(
        &self,
        connection: &mut Connection<F>,
        index: u32,
        version: u32,
        signal: u64,
        now: u32,
    ) -> bool {
        let Some(half) = self.at(index, version) else {
            return false;
        };
        if !self.is_broken_here(index, version) {
            return true;
        }
        let Connection { forward, reply, .. } = connection;
        let (own, key) = match half.meta.role() {
            Role::Forward => (forward, reply),
            Role::Reply => (reply, forward),
        };
        *own = Key::of_slot(half.slot);
        *key = other_key::<F, M::Slot>(half);
        if let Some(other) = self.find_half(key) {
            if !leads_to(other.slot, &half) {
                self.drop_half(half);
                return false;
            }
            // Another CPU was faster, or nothing was wrong.
            return self.lead(half, other);
        }
        match self.other(half.slot) {
            // It is where it should be, and not found there.
            Other::Live(other) if leads_to(other.slot, &half) => self.drop_half(other),
            Other::Busy => return true,
            Other::Live(_) | Other::Gone => {}
        }
        // The end of a connection takes its forward half first: the reply half follows.
        let link = Link(half.slot.load(place::LINK));
        let is_being_ended = self.memory.slot(link.index()).is_some_and(|slot| {
            let kind = Meta(slot.load(place::META)).kind();
            kind == Kind::Busy || kind == Kind::Pending
        });
        if is_being_ended {
            return true;
        }
        let Some(claim) = self.claim(key, now) else {
            return true;
        };
        let signal = Signal(signal);
        let service = Facts(half.slot.load(place::FACTS)).service();
        let facts = match (key.role(), key.protocol()) {
            (Role::Forward, _) => Facts::of_forward(Facts::LOST_BACKEND, service),
            (Role::Reply, TCP) => Facts::of_reply(signal.number(), service),
            (Role::Reply, _) => Facts::of_reply(now, service),
        };
        write::<F, M::Slot>(
            claim.slot,
            key,
            own,
            Link::new(index, version, link.generation()),
            facts,
            now,
        );
        let pending = claim.meta.pending(
            key.protocol(),
            key.role(),
            half.meta.keeps_client(),
            seen_by_other(half.meta, signal),
        );
        match self.enter(&claim, pending) {
            Ok(other) => self.lead(half, other),
            Err(_) => true,
        }
    }

    /// Has a half refer to the other one that has been entered for it. Returns whether it is still there; if
    /// not, the other one goes, too. A processor that has found the half alone and is about to free it finds
    /// another [`Meta`], and looks again.
    #[inline(always)]
    fn lead(&self, half: Half<M::Slot>, other: Half<M::Slot>) -> bool {
        let before = Link(half.slot.load(place::LINK));
        let link = Link::new(other.index, other.meta.version(), before.generation());
        if before != link {
            half.slot.exchange(place::LINK, before.0, link.0);
        }
        // Packets note their signals meanwhile.
        for _ in 0..TRIES {
            let meta = Meta(half.slot.load(place::META));
            if !meta.is_same_half(half.meta) {
                break;
            }
            if half.slot.exchange(place::META, meta.0, meta.mended().0) {
                return true;
            }
        }
        M::leave(self, other.index, other.meta.0);
        false
    }
}

/// Returns whether the half in this slot takes `half` for its other one.
#[inline(always)]
fn leads_to<S: Slot>(slot: S, half: &Half<S>) -> bool {
    let link = Link(slot.load(place::LINK));
    link.is_to(half.index, half.meta.version())
}

/// Returns the key of the other half of this one.
#[inline(always)]
fn other_key<F: Wide, S: Slot>(half: Half<S>) -> Key<F> {
    let translated = F::load(half.slot, place::ADDRESSES + F::ADDRESS_WORDS);
    let ports = (half.slot.load(place::PORTS) >> 32) as u32;
    let role = match half.meta.role() {
        Role::Forward => Role::Reply,
        Role::Reply => Role::Forward,
    };
    Key::of_words(
        F::all_reversed(&translated),
        ports.rotate_left(16),
        half.meta.protocol(),
        role,
    )
}

/// Returns the bits that the other half of this one must have seen, as far as they follow from this one.
#[inline(always)]
const fn seen_by_other(half: Meta, signal: Signal) -> u16 {
    let mut seen = half.seen() & (Meta::ASSURED | Meta::OPENED | Meta::RULED);
    let mut bit = 0;
    while bit < MIRRORED.len() {
        let (own, others) = MIRRORED[bit];
        if half.has(own) {
            seen |= others;
        }
        if half.has(others) {
            seen |= own;
        }
        bit += 1;
    }
    // A client that goes on behind the SYN has had an answer.
    let is_answered = match half.protocol() {
        TCP | SCTP => !signal.opens(),
        _ => half.has(Meta::ASSURED),
    };
    if is_answered && matches!(half.role(), Role::Forward) {
        seen |= Meta::REPLIED | Meta::SYN_ACK;
    }
    seen
}

/// Bits of a half for its own side, each with the other half's bit for that side.
const MIRRORED: [(u16, u16); 2] = [(Meta::FIN, Meta::PEER_FIN), (Meta::RESET, Meta::PEER_RESET)];
