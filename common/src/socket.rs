//! A socket's memory of the frontends that it asked, in socket storage.
//!
//! A *pair* is a frontend and the backend that stands for it. A connected socket has one ([`Connected`]), and a UDP
//! socket that was connected anew the one before, as the kernel may refuse what a program let pass; a UDP socket that
//! is not connected has several ([`Asked`]), and may be used by several threads at once: a pair is written by the
//! thread that makes its version odd, and a reader takes what it has read only if the version is even and the same
//! before and after.

#[cfg(test)]
mod tests;

use bytemuck::{Pod, Zeroable};

use crate::{V4, V6, connections::Slot as Words};

/// In place of the offset of a task's flags: the offset is not known, and each task may be a kernel thread.
pub const EVERY_TASK: u32 = u32::MAX;

/// An IPv6 address, or an IPv4 address as an IPv6 socket has it (`::ffff:a.b.c.d`, RFC 4291
/// 2.5.5.2), in network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mapped(pub [u64; 2]);

/// The third word of an IPv4 address that is mapped.
const PREFIX: u64 = u32::from_ne_bytes([0, 0, 0xff, 0xff]) as u64;

impl Mapped {
    /// Of an IPv4 address in network order.
    #[inline(always)]
    #[must_use]
    pub const fn of_v4(address: <V4 as crate::Family>::Address) -> Self {
        Self([0, PREFIX | (address as u64) << 32])
    }

    /// Of an IPv6 address in network order.
    #[inline(always)]
    #[must_use]
    pub const fn of_v6([a, b, c, d]: <V6 as crate::Family>::Address) -> Self {
        Self([a as u64 | (b as u64) << 32, c as u64 | (d as u64) << 32])
    }

    /// The IPv4 address, if it is one.
    #[inline(always)]
    #[must_use]
    pub const fn v4(self) -> Option<<V4 as crate::Family>::Address> {
        let Self([high, low]) = self;
        if high == 0 && low & 0xffff_ffff == PREFIX {
            Some((low >> 32) as u32)
        } else {
            None
        }
    }

    /// The four words of the address.
    #[inline(always)]
    #[must_use]
    pub const fn v6(self) -> <V6 as crate::Family>::Address {
        let Self([high, low]) = self;
        [
            high as u32,
            (high >> 32) as u32,
            low as u32,
            (low >> 32) as u32,
        ]
    }
}

/// An address and a port, network order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Endpoint {
    /// The address.
    pub address: Mapped,
    /// The port.
    pub port: u16,
}

/// A frontend that a socket asked, and the backend that it was sent to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pair {
    /// The address and port that the process asked for.
    pub frontend: Endpoint,
    /// The destination in its place.
    pub peer: Endpoint,
    /// The backend's index in the backend table of the peer's family.
    pub backend: u32,
    /// The backend's generation then: where the table has another, the backend is gone.
    pub generation: u16,
}

/// Places of a pair's words.
mod place {
    /// The version: odd while a thread writes.
    pub(super) const VERSION: usize = 0;
    /// The backend's index, then its generation.
    pub(super) const BACKEND: usize = 1;
    /// The frontend's address.
    pub(super) const FRONTEND: usize = 2;
    /// The backend's.
    pub(super) const PEER: usize = 4;
    /// Time at which the frontend was asked last, then both ports: the frontend's, the backend's.
    pub(super) const PORTS: usize = 6;
}

/// Number of words in a pair.
pub const PAIR_WORDS: usize = 7;

/// Number of frontends that a socket remembers that is not connected.
pub const PAIRS: usize = 16;

/// The storage of a connected socket: one pair. All zero: none.
///
/// A copy that others have made word by word may be of two pairs: its version is that of one moment.
/// [`PairIn::copy`] makes whole ones.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Connected(pub [u64; PAIR_WORDS]);

/// The storage of a UDP socket that is not connected: which pair was asked last and how often any
/// was, then the pairs. All zero: none.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Asked {
    /// Number of times that any was asked, in the lower half; in the upper one the pair that was last.
    pub last: u64,
    /// The pairs.
    pub pairs: [Connected; PAIRS],
}

impl Connected {
    /// The pair, of a copy that no thread writes to.
    #[must_use]
    pub fn pair(&self) -> Option<Pair> {
        let Self(words) = self;
        let is_whole = words[place::VERSION] & 1 == 0;
        is_whole.then(|| decode(|place| words[place]))?
    }
}

/// The pair whose words are at these places; `None` if they are none.
#[inline(always)]
fn decode(word: impl Fn(usize) -> u64) -> Option<Pair> {
    let ports = word(place::PORTS) >> 32;
    let backend = word(place::BACKEND);
    let address = |place| Mapped([word(place), word(place + 1)]);
    let pair = Pair {
        frontend: Endpoint {
            address: address(place::FRONTEND),
            port: ports as u16,
        },
        peer: Endpoint {
            address: address(place::PEER),
            port: (ports >> 16) as u16,
        },
        backend: backend as u32,
        generation: (backend >> 32) as u16,
    };
    (ports != 0).then_some(pair)
}

/// One pair in storage, at the places from `begin` on.
#[derive(Debug, Clone, Copy)]
pub struct PairIn<S> {
    words: S,
    begin: usize,
}

impl<S: Words> PairIn<S> {
    /// The pair of a [`Connected`].
    #[inline(always)]
    pub const fn connected(words: S) -> Self {
        Self { words, begin: 0 }
    }

    #[inline(always)]
    fn load(self, place: usize) -> u64 {
        self.words.load(self.begin + place)
    }

    /// The pair if it is one, and no thread writes it.
    #[inline(always)]
    pub fn read(self) -> Option<Pair> {
        let version = self.load(place::VERSION);
        if version & 1 != 0 {
            return None;
        }
        let pair = decode(|place| self.load(place))?;
        if self.load(place::VERSION) != version {
            return None;
        }
        Some(pair)
    }

    /// Returns a copy of the pair, or of none; `None` if a thread writes it.
    #[inline(always)]
    pub fn copy(self) -> Option<Connected> {
        let version = self.load(place::VERSION);
        if version & 1 != 0 {
            return None;
        }
        let mut words = [version; PAIR_WORDS];
        // Written out: the verifier takes no place that a loop counts for a constant.
        words[place::BACKEND] = self.load(place::BACKEND);
        words[place::FRONTEND] = self.load(place::FRONTEND);
        words[place::FRONTEND + 1] = self.load(place::FRONTEND + 1);
        words[place::PEER] = self.load(place::PEER);
        words[place::PEER + 1] = self.load(place::PEER + 1);
        words[place::PORTS] = self.load(place::PORTS);
        (self.load(place::VERSION) == version).then_some(Connected(words))
    }

    /// Returns whether it seems to be a pair with this frontend or peer, whose address is at `side`. Another thread may
    /// be writing it.
    #[inline(always)]
    fn is_of(self, side: usize, endpoint: &Endpoint) -> bool {
        let shift = if side == place::FRONTEND { 32 } else { 48 };
        let Mapped([high, low]) = endpoint.address;
        (self.load(place::PORTS) >> shift) as u16 == endpoint.port
            && self.load(side + 1) == low
            && self.load(side) == high
    }

    /// Makes it this pair, asked at `time`, or none. Returns whether it did: not if another thread writes it, or has
    /// written it since `version`.
    #[inline(always)]
    fn replace(self, version: u64, pair: Option<&Pair>, time: u32) -> bool {
        let Self { words, begin } = self;
        let at = |place| begin + place;
        if version & 1 != 0 || !words.exchange(at(place::VERSION), version, version + 1) {
            return false;
        }
        if let Some(pair) = pair {
            let Pair {
                frontend,
                peer,
                backend,
                generation,
            } = pair;
            words.store(
                at(place::BACKEND),
                u64::from(*backend) | u64::from(*generation) << 32,
            );
            words.store(at(place::FRONTEND), frontend.address.0[0]);
            words.store(at(place::FRONTEND + 1), frontend.address.0[1]);
            words.store(at(place::PEER), peer.address.0[0]);
            words.store(at(place::PEER + 1), peer.address.0[1]);
            words.store(
                at(place::PORTS),
                u64::from(time) | u64::from(frontend.port) << 32 | u64::from(peer.port) << 48,
            );
        } else {
            words.store(at(place::PORTS), 0);
        }
        words.store(at(place::VERSION), version.wrapping_add(2));
        true
    }

    /// Makes it this pair. Of a connected socket, which the kernel locks: no other thread writes it.
    #[inline(always)]
    pub fn set(self, pair: &Pair) {
        self.replace(self.load(place::VERSION), Some(pair), 0);
    }

    /// Makes it no pair.
    #[inline(always)]
    pub fn clear(self) {
        if self.load(place::PORTS) != 0 {
            self.replace(self.load(place::VERSION), None, 0);
        }
    }

    /// Makes it no pair if this is its peer.
    #[inline(always)]
    pub fn forget(self, peer: &Endpoint) {
        let version = self.load(place::VERSION);
        if self.is_of(place::PEER, peer) {
            self.replace(version, None, 0);
        }
    }
}

/// The pairs of an [`Asked`] in storage.
#[derive(Debug, Clone, Copy)]
pub struct Pairs<S>(pub S);

/// Place of the word with the use of the pairs: [`Use`].
const USE: usize = 0;

/// Number of times that any pair was asked (32 bits), the one that was asked last, and the place that is the next to be
/// written (8 bits each). Of two threads that change it at once one may be lost: then of the pairs that both asked one
/// seems to be older than it is.
#[derive(Clone, Copy)]
struct Use(u64);

impl Use {
    #[inline(always)]
    const fn new(time: u32, last: usize, next: usize) -> Self {
        Self(time as u64 | ((last % PAIRS) as u64) << 32 | ((next % PAIRS) as u64) << 40)
    }

    #[inline(always)]
    const fn time(self) -> u32 {
        self.0 as u32
    }

    #[inline(always)]
    const fn last(self) -> usize {
        (self.0 >> 32) as usize % PAIRS
    }

    #[inline(always)]
    const fn next(self) -> usize {
        (self.0 >> 40) as usize % PAIRS
    }
}

/// The place of a pair among the others of its socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place(usize);

/// Outcome of remembering a pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// It has a place of its own.
    Kept,
    /// It has the place of the one that had been there for the longest time.
    InPlaceOfOldest,
    /// It has none: others write all that were tried.
    Not,
}

/// Number of places that are tried for a pair, if other threads write the first ones.
const TRIES: usize = 4;

impl<S: Words> Pairs<S> {
    /// One of them.
    #[inline(always)]
    const fn at(self, index: usize) -> PairIn<S> {
        PairIn {
            words: self.0,
            begin: 1 + index % PAIRS * PAIR_WORDS,
        }
    }

    #[inline(always)]
    fn usage(self) -> Use {
        Use(self.0.load(USE))
    }

    /// The pair at a place.
    #[inline(always)]
    pub fn read(self, Place(index): Place) -> Option<Pair> {
        self.at(index).read()
    }

    /// Returns the place of the pair of this frontend.
    #[inline(always)]
    pub fn find(self, frontend: &Endpoint) -> Option<Place> {
        let last = self.usage().last();
        if self.at(last).is_of(place::FRONTEND, frontend) {
            return Some(Place(last));
        }
        for index in 0..PAIRS {
            if self.at(index).is_of(place::FRONTEND, frontend) {
                return Some(Place(index));
            }
        }
        None
    }

    /// Notes that the pair at this place is asked.
    #[inline(always)]
    pub fn ask(self, Place(index): Place) {
        let usage = self.usage();
        if usage.last() == index {
            return;
        }
        let time = usage.time().wrapping_add(1);
        self.0.store(USE, Use::new(time, index, usage.next()).0);
        let PairIn { words, begin } = self.at(index);
        words.store_half(begin + place::PORTS, time);
    }

    /// Returns the place of the pair for whose frontend this backend answers: of several the one asked last.
    #[inline(always)]
    pub fn find_peer(self, peer: &Endpoint) -> Option<Place> {
        let usage = self.usage();
        let last = usage.last();
        if self.at(last).is_of(place::PEER, peer) {
            return Some(Place(last));
        }
        // The age, then the place.
        let mut found = u64::MAX;
        for index in 0..PAIRS {
            let pair = self.at(index);
            if !pair.is_of(place::PEER, peer) {
                continue;
            }
            let asked = pair.load(place::PORTS) as u32;
            let age = u64::from(usage.time().wrapping_sub(asked));
            found = found.min(age << 8 | index as u64);
        }
        (found != u64::MAX).then_some(Place(found as usize % PAIRS))
    }

    /// Remembers a pair that is asked now: at `place`, where an earlier one of its frontend is, or in
    /// place of the one that has been there for the longest time.
    #[inline(always)]
    pub fn remember(self, pair: &Pair, place: Option<Place>) -> Remembered {
        let usage = self.usage();
        let time = usage.time().wrapping_add(1);
        for attempt in 0..TRIES {
            let (index, next) = match place {
                Some(Place(index)) if attempt == 0 => (index, usage.next()),
                _ => {
                    let index = (usage.next() + attempt) % PAIRS;
                    (index, index + 1)
                }
            };
            let old = self.at(index);
            let is_free = old.load(place::PORTS) >> 32 == 0;
            if old.replace(old.load(place::VERSION), Some(pair), time) {
                self.0.store(USE, Use::new(time, index, next).0);
                return if is_free || place == Some(Place(index)) {
                    Remembered::Kept
                } else {
                    Remembered::InPlaceOfOldest
                };
            }
        }
        Remembered::Not
    }

    /// Forgets for whom this backend answers: it is asked itself.
    #[inline(always)]
    pub fn forget(self, peer: &Endpoint) {
        for index in 0..PAIRS {
            self.at(index).forget(peer);
        }
    }
}
