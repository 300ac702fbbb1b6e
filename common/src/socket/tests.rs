//! Pairs in storage: what is remembered, for whom a backend answers, and several threads at once.

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::*;

/// Storage as threads share it.
#[derive(Clone, Copy)]
struct Shared<'a>(&'a [AtomicU64]);

impl Words for Shared<'_> {
    fn load(self, place: usize) -> u64 {
        self.0[place].load(Ordering::Acquire)
    }

    fn store(self, place: usize, value: u64) {
        self.0[place].store(value, Ordering::Release);
    }

    fn store_half(self, place: usize, value: u32) {
        let word = &self.0[place];
        let _ = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| {
            Some(old & !0xffff_ffff | u64::from(value))
        });
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        self.0[place]
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

fn storage(words: usize) -> Vec<AtomicU64> {
    (0..words).map(|_| AtomicU64::new(0)).collect()
}

fn asked() -> Vec<AtomicU64> {
    storage(size_of::<Asked>() / size_of::<u64>())
}

fn endpoint(last: u8, port: u16) -> Endpoint {
    Endpoint {
        address: Mapped::of_v4(u32::from_ne_bytes([10, 0, 0, last])),
        port,
    }
}

/// A pair that each of its words identifies.
fn pair(frontend: u8, peer: u8) -> Pair {
    Pair {
        frontend: endpoint(frontend, u16::from(frontend) + 1),
        peer: endpoint(peer, u16::from(peer) + 1),
        backend: u32::from(frontend) << 8 | u32::from(peer),
        generation: u16::from(frontend) << 8 | u16::from(peer),
    }
}

#[test]
fn an_ipv4_address_is_one_in_both_forms() {
    let address = u32::from_ne_bytes([192, 0, 2, 7]);
    let mapped = Mapped::of_v4(address);
    assert_eq!(mapped.v4(), Some(address));
    let words = mapped.v6();
    assert_eq!(Mapped::of_v6(words), mapped);
    let bytes: Vec<u8> = words.into_iter().flat_map(u32::to_ne_bytes).collect();
    assert_eq!(bytes[..12], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff]);
    assert_eq!(bytes[12..], [192, 0, 2, 7]);
    assert_eq!(Mapped::of_v6([1, 2, 3, 4]).v4(), None);
    assert_eq!(Mapped::of_v6([1, 2, 3, 4]).v6(), [1, 2, 3, 4]);
}

#[test]
fn a_connected_socket_has_one_pair() {
    let words = storage(PAIR_WORDS);
    let place = PairIn::connected(Shared(&words));
    assert_eq!(place.read(), None);
    for wanted in [pair(1, 2), pair(3, 4)] {
        place.set(&wanted);
        assert_eq!(place.read(), Some(wanted));
        let copy: Vec<u64> = words
            .iter()
            .map(|word| word.load(Ordering::Acquire))
            .collect();
        assert_eq!(Connected(copy.try_into().unwrap()).pair(), Some(wanted));
    }
    place.clear();
    assert_eq!(place.read(), None);
}

/// Storage that another thread writes another pair to `before` one of the reads.
#[derive(Clone, Copy)]
struct Rewritten<'a> {
    words: Shared<'a>,
    reads: &'a AtomicU64,
    before: u64,
}

impl Words for Rewritten<'_> {
    fn load(self, place: usize) -> u64 {
        if self.reads.fetch_add(1, Ordering::Relaxed) == self.before {
            PairIn::connected(self.words).set(&pair(3, 4));
        }
        self.words.load(place)
    }

    fn store(self, _: usize, _: u64) {}

    fn store_half(self, _: usize, _: u32) {}

    fn exchange(self, _: usize, _: u64, _: u64) -> bool {
        false
    }
}

#[test]
fn a_copy_of_a_pair_that_is_rewritten_meanwhile_is_none() {
    let reads_of_a_copy = PAIR_WORDS as u64 + 1;
    for before in 0..=reads_of_a_copy {
        let words = storage(PAIR_WORDS);
        PairIn::connected(Shared(&words)).set(&pair(1, 2));
        let rewritten = Rewritten {
            words: Shared(&words),
            reads: &AtomicU64::new(0),
            before,
        };
        let copy = PairIn::connected(rewritten).copy();
        let whole = match before {
            0 => Some(pair(3, 4)),
            _ if before == reads_of_a_copy => Some(pair(1, 2)),
            _ => None,
        };
        assert_eq!(copy.and_then(|copy| copy.pair()), whole, "{before}");
    }
    let words = storage(PAIR_WORDS);
    assert!(
        PairIn::connected(Shared(&words))
            .copy()
            .unwrap()
            .pair()
            .is_none()
    );
    words[0].store(1, Ordering::Relaxed);
    assert_eq!(PairIn::connected(Shared(&words)).copy(), None);
}

fn find(pairs: Pairs<Shared<'_>>, frontend: &Endpoint) -> Option<Pair> {
    let place = pairs.find(frontend)?;
    pairs.ask(place);
    pairs.read(place)
}

fn remember(pairs: Pairs<Shared<'_>>, pair: &Pair) -> Remembered {
    pairs.remember(pair, pairs.find(&pair.frontend))
}

fn frontend_of(pairs: Pairs<Shared<'_>>, peer: &Endpoint) -> Option<Endpoint> {
    let pair = pairs.read(pairs.find_peer(peer)?)?;
    (pair.peer == *peer).then_some(pair.frontend)
}

#[test]
fn as_many_frontends_are_remembered_as_there_are_places() {
    let words = asked();
    let pairs = Pairs(Shared(&words));
    for index in 0..PAIRS as u8 {
        assert_eq!(remember(pairs, &pair(index, index)), Remembered::Kept);
    }
    for index in 0..PAIRS as u8 {
        let known = pair(index, index);
        assert_eq!(find(pairs, &known.frontend), Some(known));
        assert_eq!(frontend_of(pairs, &known.peer), Some(known.frontend));
    }
    let new = pair(90, 90);
    assert_eq!(remember(pairs, &new), Remembered::InPlaceOfOldest);
    assert_eq!(find(pairs, &pair(0, 0).frontend), None);
    assert_eq!(find(pairs, &pair(1, 1).frontend), Some(pair(1, 1)));
    assert_eq!(find(pairs, &new.frontend), Some(new));
}

#[test]
fn a_frontend_has_one_pair() {
    let words = asked();
    let pairs = Pairs(Shared(&words));
    remember(pairs, &pair(7, 1));
    let other = Pair {
        peer: endpoint(9, 9),
        ..pair(7, 1)
    };
    assert_eq!(remember(pairs, &other), Remembered::Kept);
    assert_eq!(find(pairs, &other.frontend), Some(other));
    assert_eq!(frontend_of(pairs, &pair(7, 1).peer), None);
    // It took no place of its own.
    for index in 10..10 + PAIRS as u8 - 1 {
        assert_eq!(remember(pairs, &pair(index, index)), Remembered::Kept);
    }
}

#[test]
fn a_backend_of_two_frontends_answers_for_the_one_asked_last() {
    let words = asked();
    let pairs = Pairs(Shared(&words));
    let [first, second] = [pair(1, 5), pair(2, 5)];
    remember(pairs, &first);
    remember(pairs, &second);
    assert_eq!(frontend_of(pairs, &first.peer), Some(second.frontend));
    find(pairs, &first.frontend).unwrap();
    assert_eq!(frontend_of(pairs, &first.peer), Some(first.frontend));
    // Another one is the last of all now.
    remember(pairs, &pair(3, 6));
    assert_eq!(frontend_of(pairs, &first.peer), Some(first.frontend));
    pairs.forget(&first.peer);
    assert_eq!(frontend_of(pairs, &first.peer), None);
    assert_eq!(find(pairs, &second.frontend), None);
}

#[test]
fn threads_never_read_half_a_pair() {
    const ROUNDS: u32 = 40_000;
    let words = asked();
    let pairs = Pairs(Shared(&words));
    thread::scope(|scope| {
        for thread in 0..4_u8 {
            scope.spawn(move || {
                let mut state = u32::from(thread) + 1;
                for _ in 0..ROUNDS {
                    state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let (frontend, peer) = ((state >> 24) as u8 % 40, (state >> 16) as u8 % 40);
                    let new = pair(frontend, peer);
                    let whole = |found: Pair| {
                        let [frontend, peer] = [found.backend >> 8, found.backend & 0xff];
                        assert_eq!(found, pair(frontend as u8, peer as u8), "of two");
                    };
                    match find(pairs, &new.frontend) {
                        Some(found) => whole(found),
                        None => {
                            remember(pairs, &new);
                        }
                    }
                    if let Some(place) = pairs.find_peer(&new.peer) {
                        pairs.read(place).map(whole);
                    }
                    if state.is_multiple_of(256) {
                        pairs.forget(&new.peer);
                    }
                }
            });
        }
    });
}
