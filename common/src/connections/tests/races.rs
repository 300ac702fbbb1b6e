//! Two CPUs at once, in all orders that C11 allows and a few preemptions reach.
//!
//! The checker lets a load see any value that its ordering permits, not only the last one: an acquire or
//! a release that is missing shows here, though x86 would not show it.

use alloc::{boxed::Box, vec::Vec};

use loom::{
    model::Builder,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use crate::{
    TCP, Tuple, UDP, V4,
    connections::{
        Connection, Hit, Key, Memory, Meta, Refused, Role, Signal, Slot, Table, Wide,
        tests::{
            integrity::check,
            memory::{SEEDS, TIMEOUTS, connection},
        },
    },
};

const NOW: u32 = 1000;

/// Slots of the checker's atomics, so few that connections meet. They live for ever: the checker's
/// threads want that.
#[derive(Clone, Copy)]
struct Few(&'static [Vec<AtomicU64>]);

#[derive(Clone, Copy)]
struct Words(&'static [AtomicU64]);

impl Slot for Words {
    fn load(self, place: usize) -> u64 {
        self.0[place].load(Ordering::Acquire)
    }

    fn store(self, place: usize, value: u64) {
        self.0[place].store(value, Ordering::Release);
    }

    fn store_half(self, place: usize, value: u32) {
        let mut old = self.load(place);
        while !self.exchange(place, old, old & !0xffff_ffff | u64::from(value)) {
            old = self.load(place);
        }
    }

    fn exchange(self, place: usize, old: u64, new: u64) -> bool {
        self.0[place]
            .compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
    }
}

impl Memory for Few {
    type Family = V4;
    type Slot = Words;

    fn slot(&self, index: u32) -> Option<Words> {
        self.0.get(index as usize).map(|words| Words(words))
    }
}

type Tracked = Table<'static, Few>;

/// A table with so many slots, and one home for all.
fn table(slots: usize) -> Tracked {
    let words = || (0..V4::SLOT_WORDS).map(|_| AtomicU64::new(0)).collect();
    let slots: Vec<Vec<AtomicU64>> = (0..slots).map(|_| words()).collect();
    Table::new(Few(Box::leak(slots.into())), 1, &SEEDS, &TIMEOUTS)
}

/// Runs two CPUs in all orders with at most so many preemptions.
fn explore(preemptions: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 20_000;
    builder.check(model);
}

fn tcp(port: u16, backend: u32) -> Connection<V4> {
    connection(1, port, backend, TCP, Meta::OPENED)
}

fn forward(table: &Tracked, of: &Connection<V4>) -> Option<Hit<V4, Words>> {
    table.find(&of.forward)
}

/// Whatever a lookup gives is of the connection that it was for.
fn look(table: &Tracked, of: &Connection<V4>) {
    if let Some(hit) = forward(table, of) {
        assert_eq!(hit.translated(), of.translated(), "a packet of the client");
    }
    if let Some(hit) = table.find(&of.reply) {
        assert_eq!(
            hit.translated(),
            of.client().reversed(),
            "a packet of the backend"
        );
    }
}

#[test]
fn of_two_that_open_one_flow_one_does() {
    explore(2, || {
        let table = table(5);
        let (one, other) = (tcp(7, 1), tcp(7, 2));
        let rival = thread::spawn(move || table.open(&other, NOW));
        let mine = table.open(&one, NOW);
        let rivals = rival.join().unwrap();
        match (mine, rivals) {
            (Ok(()), Err(_)) => {
                assert_eq!(
                    forward(&table, &one).unwrap().translated(),
                    one.translated()
                );
                assert!(table.find(&other.reply).is_none());
            }
            (Err(_), Ok(())) => {
                assert_eq!(
                    forward(&table, &other).unwrap().translated(),
                    other.translated()
                );
                assert!(table.find(&one.reply).is_none());
            }
            both => panic!("{both:?}"),
        }
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn of_two_that_want_one_reply_tuple_one_has_it() {
    explore(2, || {
        let table = table(5);
        let (one, mut other) = (tcp(7, 1), tcp(7, 1));
        let client = Tuple {
            destination_port: 443,
            ..other.client()
        };
        other.forward = Key::new(&client, TCP, Role::Forward);
        let rival = thread::spawn(move || table.open(&other, NOW));
        let mine = table.open(&one, NOW);
        let rivals = rival.join().unwrap();
        assert!(mine.is_ok() != rivals.is_ok(), "{mine:?} {rivals:?}");
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn who_looks_while_another_opens_sees_all_or_nothing() {
    explore(2, || {
        let table = table(3);
        let new = tcp(7, 1);
        let opening = thread::spawn(move || table.open(&new, NOW));
        look(&table, &new);
        assert_eq!(opening.join().unwrap(), Ok(()));
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn who_looks_while_a_slot_is_reused_sees_his_own() {
    explore(2, || {
        let table = table(2);
        let (old, new) = (tcp(7, 1), tcp(8, 2));
        table.open(&old, NOW).unwrap();
        let later = NOW + 100;
        let opening = thread::spawn(move || table.open(&new, later));
        look(&table, &old);
        look(&table, &new);
        assert_eq!(opening.join().unwrap(), Ok(()));
        assert!(forward(&table, &old).is_none(), "it had to give way");
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn a_reply_during_a_takeover_is_the_olds_or_the_news() {
    explore(2, || {
        let table = table(3);
        let (old, new) = (tcp(7, 1), tcp(7, 2));
        table.open(&old, NOW).unwrap();
        let taking = thread::spawn(move || {
            let hit = forward(&table, &old).unwrap();
            let pair = table.pair(hit.half()).unwrap();
            // A packet that changes what has been seen makes it fail; the next one's will not.
            table.end(&pair).then(|| table.open(&new, NOW))
        });
        for of in [&old, &new] {
            if let Some(hit) = table.find(&of.reply) {
                assert_eq!(hit.translated(), of.client().reversed());
                table.observe(&hit, Signal::DATA, NOW);
            }
        }
        assert_eq!(taking.join().unwrap(), Some(Ok(())));
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn a_connection_is_ended_once_and_whole() {
    explore(2, || {
        let table = table(3);
        let connection = tcp(7, 1);
        table.open(&connection, NOW).unwrap();
        let end = move || {
            let hit = forward(&table, &connection)?;
            let pair = table.pair(hit.half())?;
            Some(table.end(&pair))
        };
        let other = thread::spawn(end);
        let ended = [end(), other.join().unwrap()];
        assert_eq!(ended.iter().filter(|it| **it == Some(true)).count(), 1);
        assert_eq!(check(&table), 0);
    });
}

#[test]
fn a_connection_that_is_just_established_does_not_give_way() {
    explore(2, || {
        let table = table(2);
        let (old, new) = (tcp(7, 1), tcp(8, 2));
        table.open(&old, NOW).unwrap();
        let hit = table.find(&old.reply).unwrap();
        table.observe(&hit, Signal::answer(5), NOW);
        let later = NOW + 100;
        let opening = thread::spawn(move || table.open(&new, later));
        let established = forward(&table, &old).is_some_and(|hit| {
            table.observe(&hit, Signal::acknowledge(5), later);
            forward(&table, &old).is_some_and(|hit| hit.meta.has(Meta::ASSURED))
        });
        let opened = opening.join().unwrap();
        assert_ne!(established, opened.is_ok(), "one of them has the room");
        assert!(established || opened == Ok(()), "{opened:?}");
        assert_eq!(forward(&table, &old).is_some(), established);
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn packets_of_both_sides_lose_nothing_of_each_other() {
    explore(2, || {
        let table = table(2);
        let flow = connection(1, 7, 1, UDP, 0);
        table.open(&flow, NOW).unwrap();
        let later = NOW + 12;
        let backend = thread::spawn(move || {
            let hit = table.find(&flow.reply).unwrap();
            table.observe(&hit, Signal::DATA, later);
        });
        let hit = forward(&table, &flow).unwrap();
        table.observe(&hit, Signal::DATA, later);
        backend.join().unwrap();
        let hit = forward(&table, &flow).unwrap();
        let pair = table.pair(hit.half()).unwrap();
        assert!(pair.reply.meta.has(Meta::REPLIED));
        assert!(pair.forward.meta.has(Meta::ASSURED), "it had lasted");
        assert_eq!(table.idle(&pair, later), 0);
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn a_full_table_refuses_and_stays_whole() {
    explore(2, || {
        let table = table(3);
        let (one, other) = (tcp(7, 1), tcp(8, 2));
        let rival = thread::spawn(move || table.open(&other, NOW));
        let mine = table.open(&one, NOW);
        let rivals = rival.join().unwrap();
        for outcome in [mine, rivals] {
            assert_ne!(outcome, Err(Refused::Exists), "nobody has those tuples");
        }
        check(&table);
    });
}

/// A table with one connection whose reply half has been lost.
fn broken(slots: usize, of: &Connection<V4>) -> Tracked {
    let table = table(slots);
    table.open(of, NOW).unwrap();
    let lost = table.find_half(&of.reply).unwrap();
    table.leave_here(lost.index, lost.meta.0);
    table
}

/// Mends the connection as the client's next packet does.
fn mend(table: &Tracked, of: &Connection<V4>) -> bool {
    table.find_half(&of.forward).is_some_and(|half| {
        let version = half.meta.version();
        let signal = Signal::acknowledge(5).0;
        table.mend_here(&mut of.clone(), half.index, version, signal, NOW + 1)
    })
}

#[test]
fn two_packets_mend_a_connection_once() {
    explore(2, || {
        let connection = tcp(7, 1);
        let table = broken(4, &connection);
        let other = thread::spawn(move || mend(&table, &connection));
        assert!(mend(&table, &connection));
        assert!(other.join().unwrap());
        look(&table, &connection);
        assert!(
            mend(&table, &connection),
            "if they were in each other's way"
        );
        assert!(table.find(&connection.reply).is_some());
        assert_eq!(check(&table), 1);
    });
}

#[test]
fn a_connection_that_is_ended_while_it_is_mended_leaves_nothing() {
    explore(2, || {
        let connection = tcp(7, 1);
        let table = broken(4, &connection);
        let ending = thread::spawn(move || {
            let half = table.find_half(&connection.forward).unwrap();
            table.forget_here(half.index, half.meta.0);
        });
        mend(&table, &connection);
        ending.join().unwrap();
        assert_eq!(check(&table), 0);
    });
}
