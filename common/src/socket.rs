//! What a socket remembers of the frontends that it asked, in socket storage.
//!
//! A *pair* is a frontend and the backend that stands for it. A connected socket has one
//! ([`Connected`]); a UDP socket that is not connected has several ([`Asked`]), and may be used by
//! several threads at once: a pair is written by whoever makes its version odd, and a reader takes what
//! it has read only if the version is even and the same before and after.

#[cfg(test)]
mod tests;

use bytemuck::{Pod, Zeroable};

use crate::{V4, V6, connections::Slot as Words};

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
    /// What the process asked.
    pub frontend: Endpoint,
    /// Where that went.
    pub peer: Endpoint,
    /// The backend's index in the backend table of the peer's family.
    pub backend: u32,
    /// The backend's generation then: where the table has another, the backend is gone.
    pub generation: u16,
}

/// Places of a pair's words.
mod place {
    /// The version: odd while somebody writes.
    pub(super) const VERSION: usize = 0;
    /// The backend's index, then its generation.
    pub(super) const BACKEND: usize = 1;
    /// The frontend's address.
    pub(super) const FRONTEND: usize = 2;
    /// The backend's.
    pub(super) const PEER: usize = 4;
    /// When the frontend was asked last, then both ports: the frontend's, the backend's.
    pub(super) const PORTS: usize = 6;
}

/// How many words a pair has.
pub const PAIR_WORDS: usize = 7;

/// How many frontends a socket remembers that is not connected.
pub const PAIRS: usize = 16;

/// The storage of a connected socket: one pair. All zero: none.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Connected(pub [u64; PAIR_WORDS]);

/// The storage of a UDP socket that is not connected: which pair was asked last and how often any
/// was, then the pairs. All zero: none.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
pub struct Asked {
    /// How often any was asked, in the lower half; in the upper one the pair that was last.
    pub last: u64,
    /// The pairs.
    pub pairs: [Connected; PAIRS],
}

impl Connected {
    /// The pair, of a copy that nobody writes to.
    #[must_use]
    pub fn pair(&self) -> Option<Pair> {
        let Self(words) = self;
        let is_whole = words[place::VERSION] & 1 == 0;
        is_whole.then(|| of_words(words))?
    }
}

/// The pair of these words; `None` if they are none.
const fn of_words(words: &[u64; PAIR_WORDS]) -> Option<Pair> {
    let port = (words[place::PORTS] >> 32) as u16;
    if port == 0 {
        return None;
    }
    Some(Pair {
        frontend: Endpoint {
            address: Mapped([words[place::FRONTEND], words[place::FRONTEND + 1]]),
            port,
        },
        peer: Endpoint {
            address: Mapped([words[place::PEER], words[place::PEER + 1]]),
            port: (words[place::PORTS] >> 48) as u16,
        },
        backend: words[place::BACKEND] as u32,
        generation: (words[place::BACKEND] >> 32) as u16,
    })
}

/// One pair in storage, at the places from `begin` on.
#[derive(Clone, Copy)]
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

    #[inline(always)]
    fn endpoint(self, place: usize, port: u16) -> Endpoint {
        Endpoint {
            address: Mapped([self.load(place), self.load(place + 1)]),
            port,
        }
    }

    /// The pair if it is one, and nobody writes it.
    #[inline(always)]
    pub fn read(self) -> Option<Pair> {
        self.read_if(|_, _| true)
    }

    /// The pair if its frontend's port and its backend's are wanted: few others are read.
    #[inline(always)]
    fn read_if(self, wanted: impl Fn(u16, u16) -> bool) -> Option<Pair> {
        let version = self.load(place::VERSION);
        let ports = self.load(place::PORTS) >> 32;
        let (frontend_port, port) = (ports as u16, (ports >> 16) as u16);
        if frontend_port == 0 || version & 1 != 0 || !wanted(frontend_port, port) {
            return None;
        }
        let backend = self.load(place::BACKEND);
        let pair = Pair {
            frontend: self.endpoint(place::FRONTEND, frontend_port),
            peer: self.endpoint(place::PEER, port),
            backend: backend as u32,
            generation: (backend >> 32) as u16,
        };
        (self.load(place::VERSION) == version).then_some(pair)
    }

    /// Makes it this pair, asked at `time`, or none. Gives whether it did: not if somebody else writes
    /// it, or has written it since `version`.
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

    /// Makes it this pair. Of a connected socket, which the kernel locks: nobody else writes it.
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
}

/// The pairs of an [`Asked`] in storage.
#[derive(Clone, Copy)]
pub struct Pairs<S>(pub S);

/// Place of the word with the number of the pair that was asked last, and how often any was.
const LAST: usize = 0;

/// What became of a pair that was to be remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remembered {
    /// It has a place that was free.
    Kept,
    /// It has the place of the one that had not been asked for the longest time.
    InPlaceOfOldest,
    /// It has none: others write all that were tried.
    Not,
}

impl<S: Words> Pairs<S> {
    /// One of them.
    #[inline(always)]
    const fn at(self, index: usize) -> PairIn<S> {
        PairIn {
            words: self.0,
            begin: 1 + index % PAIRS * PAIR_WORDS,
        }
    }

    /// The number of the pair that was asked last.
    #[inline(always)]
    fn last(self) -> usize {
        (self.0.load(LAST) >> 32) as usize % PAIRS
    }

    /// The time now: how often any was asked. Of two that ask at once both may get the same.
    #[inline(always)]
    fn time(self) -> u32 {
        self.0.load(LAST) as u32
    }

    /// Notes that this one is asked.
    #[inline(always)]
    fn ask(self, index: usize) -> u32 {
        let time = self.time().wrapping_add(1);
        self.0
            .store(LAST, u64::from(time) | (index as u64) << 32);
        time
    }

    /// The pair of this frontend, which is asked now.
    #[inline(always)]
    pub fn find(self, frontend: &Endpoint) -> Option<Pair> {
        let of_frontend = |index: usize| {
            let pair = self.at(index).read_if(|port, _| port == frontend.port)?;
            (pair.frontend == *frontend).then_some(pair)
        };
        let last = self.last();
        if let Some(pair) = of_frontend(last) {
            return Some(pair);
        }
        for index in 0..PAIRS {
            if let Some(pair) = of_frontend(index) {
                let time = self.ask(index);
                let PairIn { words, begin } = self.at(index);
                words.store_half(begin + place::PORTS, time);
                return Some(pair);
            }
        }
        None
    }

    /// The frontend for which this backend answers: of several the one that was asked last.
    #[inline(always)]
    pub fn frontend_of(self, peer: &Endpoint) -> Option<Endpoint> {
        let of_peer = |index: usize| {
            let pair = self.at(index).read_if(|_, port| port == peer.port)?;
            (pair.peer == *peer).then_some(pair.frontend)
        };
        if let Some(frontend) = of_peer(self.last()) {
            return Some(frontend);
        }
        let (mut found, mut least) = (None, u32::MAX);
        let now = self.time();
        for index in 0..PAIRS {
            if let Some(frontend) = of_peer(index) {
                let age = now.wrapping_sub(self.at(index).load(place::PORTS) as u32);
                if found.is_none() || age < least {
                    (found, least) = (Some(frontend), age);
                }
            }
        }
        found
    }

    /// Remembers a pair that is asked now: in the place of the one of the same frontend, in a free one,
    /// or in that of the one that has not been asked for the longest time.
    #[inline(always)]
    pub fn remember(self, pair: &Pair) -> Remembered {
        let now = self.time();
        let (mut best, mut best_age, mut version) = (0, 0, 1);
        for index in 0..PAIRS {
            let place = self.at(index);
            let found = place.load(place::VERSION);
            if found & 1 != 0 {
                continue;
            }
            let ports = place.load(place::PORTS);
            let is_same = (ports >> 32) as u16 == pair.frontend.port
                && place.endpoint(place::FRONTEND, pair.frontend.port) == pair.frontend;
            // The same frontend before a free place, and that before the oldest.
            let age = if is_same {
                u64::MAX
            } else if ports >> 32 == 0 {
                u64::MAX - 1
            } else {
                u64::from(now.wrapping_sub(ports as u32))
            };
            if version & 1 != 0 || age > best_age {
                (best, best_age, version) = (index, age, found);
            }
        }
        if version & 1 != 0 {
            return Remembered::Not;
        }
        let time = self.ask(best);
        if !self.at(best).replace(version, Some(pair), time) {
            return Remembered::Not;
        }
        if best_age >= u64::MAX - 1 {
            Remembered::Kept
        } else {
            Remembered::InPlaceOfOldest
        }
    }

    /// Forgets for whom this backend answers: it is asked itself.
    #[inline(always)]
    pub fn forget(self, peer: &Endpoint) {
        for index in 0..PAIRS {
            let place = self.at(index);
            let version = place.load(place::VERSION);
            let is_of_peer = place
                .read_if(|_, port| port == peer.port)
                .is_some_and(|pair| pair.peer == *peer);
            if is_of_peer {
                place.replace(version, None, 0);
            }
        }
    }
}
