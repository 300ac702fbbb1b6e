//! Connections of which another program has overwritten a half.

use alloc::vec::Vec;

use crate::{
    TCP, Tuple, UDP, V4,
    connections::{
        Connection, Key, Memory as _, Meta, Phase, Role, Signal, Slot as _, place,
        tests::{
            integrity::check,
            memory::{Heap, SECOND, connection},
        },
    },
};

const NOW: u32 = 1000;
const LATER: u32 = NOW + 40 * SECOND;

const fn other(role: Role) -> Role {
    match role {
        Role::Forward => Role::Reply,
        Role::Reply => Role::Forward,
    }
}

const fn key(of: &Connection<V4>, role: Role) -> &Key<V4> {
    match role {
        Role::Forward => &of.forward,
        Role::Reply => &of.reply,
    }
}

fn says(heap: &Heap<V4>, of: &Connection<V4>, role: Role, signal: Signal, now: u32) {
    let table = heap.table();
    let hit = table.find(key(of, role)).unwrap();
    table.observe(&hit, signal, now);
}

/// The next packet of a half, which finds out that something is missing.
fn mend(heap: &Heap<V4>, of: &Connection<V4>, role: Role, signal: Signal, now: u32) -> bool {
    let table = heap.table();
    let half = table.lookup(key(of, role), signal.opens(), now).unwrap();
    let version = half.meta.version();
    table.mend_here(&mut of.clone(), half.index, version, signal.0, now)
}

fn phase(heap: &Heap<V4>, of: &Connection<V4>) -> Phase {
    let table = heap.table();
    let pair = table.pair(table.find_half(&of.forward).unwrap()).unwrap();
    Phase::of(pair.forward.meta, pair.reply.meta)
}

/// Loses a half, and checks that the next packet of the other one makes all as it was.
#[track_caller]
fn lose_and_mend(heap: &Heap<V4>, of: &Connection<V4>, lost: Role, signal: Signal, now: u32) {
    let table = heap.table();
    let before = [Role::Forward, Role::Reply].map(|role| {
        let hit = table.find(key(of, role)).unwrap();
        let times = (hit.times.address_change(), hit.times.port_change());
        (hit.translated(), times, hit.meta.keeps_client())
    });
    heap.zero(table.find_half(key(of, lost)).unwrap().index);
    assert!(table.find(key(of, lost)).is_none());
    assert!(mend(heap, of, other(lost), signal, now));
    let after = [Role::Forward, Role::Reply].map(|role| {
        let hit = table.find(key(of, role)).unwrap();
        let times = (hit.times.address_change(), hit.times.port_change());
        (hit.translated(), times, hit.meta.keeps_client())
    });
    assert_eq!(before, after, "without {lost:?}");
    assert_eq!(check(&table), 1);
}

fn established() -> (Heap<V4>, Connection<V4>) {
    let heap = Heap::<V4>::new(64);
    let of = connection(0x0a01_0105, 40_000, 0x0a01_0103, TCP, Meta::OPENED);
    heap.table().open(&of, NOW).unwrap();
    says(&heap, &of, Role::Reply, Signal::answer(5), NOW);
    says(&heap, &of, Role::Forward, Signal::acknowledge(5), NOW);
    assert_eq!(phase(&heap, &of), Phase::Established);
    (heap, of)
}

#[test]
fn either_half_comes_back_as_it_was() {
    let (heap, of) = established();
    let data = Signal::acknowledge(77);
    lose_and_mend(&heap, &of, Role::Reply, data, LATER);
    assert_eq!(phase(&heap, &of), Phase::Established);
    lose_and_mend(&heap, &of, Role::Forward, data, LATER + 1);
    assert_eq!(phase(&heap, &of), Phase::Established);
    says(&heap, &of, Role::Forward, data.with_fin(78), LATER + 1);
    says(&heap, &of, Role::Reply, Signal::acknowledge(78), LATER + 1);
    assert_eq!(phase(&heap, &of), Phase::Closing);
    lose_and_mend(&heap, &of, Role::Forward, data, LATER + 2);
    assert_eq!(phase(&heap, &of), Phase::Closing);
    lose_and_mend(&heap, &of, Role::Reply, data, LATER + 3);
    assert_eq!(phase(&heap, &of), Phase::Closing);
}

#[test]
fn a_handshake_goes_on_without_the_half_that_saw_its_syn_ack() {
    let heap = Heap::<V4>::new(64);
    let of = connection(0x0a01_0105, 40_000, 0x0a01_0103, TCP, Meta::OPENED);
    heap.table().open(&of, NOW).unwrap();
    says(&heap, &of, Role::Reply, Signal::answer(5), NOW);
    lose_and_mend(&heap, &of, Role::Reply, Signal::acknowledge(5), NOW + 1);
    says(&heap, &of, Role::Forward, Signal::acknowledge(5), NOW + 1);
    assert_eq!(phase(&heap, &of), Phase::Established);
}

#[test]
fn a_flow_lives_as_long_without_its_other_half_as_with_it() {
    for (seconds, lives) in [(29, true), (31, false)] {
        let heap = Heap::<V4>::new(64);
        let of = connection(0x0a01_0105, 40_000, 0x0a01_0103, UDP, 0);
        let table = heap.table();
        table.open(&of, NOW).unwrap();
        heap.zero(table.find_half(&of.reply).unwrap().index);
        let found = table.lookup(&of.forward, true, NOW + seconds * SECOND);
        assert_eq!(found.is_some(), lives, "after {seconds} s");
    }
}

#[test]
fn a_half_whose_home_has_lost_the_hint_is_found_again() {
    let heap = Heap::<V4>::new(1);
    let table = heap.table();
    let all = [1, 2].map(|port| connection(1, port, 2, TCP, Meta::OPENED));
    for of in &all {
        table.open(of, NOW).unwrap();
    }
    // All four are at home in one slot, and only the one that is there is found without hints.
    (&heap).slot(0).unwrap().store(place::HINTS, 0);
    let roles = [Role::Forward, Role::Reply];
    let halves = all.iter().flat_map(|of| roles.map(|role| (of, role)));
    let found: Vec<_> = halves
        .filter(|(of, role)| table.find(key(of, *role)).is_some())
        .collect();
    let [(of, role)] = found[..] else {
        panic!("{} are found", found.len());
    };
    assert!(mend(&heap, of, role, Signal::acknowledge(5), LATER));
    for role in roles {
        assert!(table.find(key(of, role)).is_some(), "{role:?}");
    }
}

#[test]
fn who_has_lost_the_tuple_to_another_connection_ends() {
    let (heap, of) = established();
    let table = heap.table();
    heap.zero(table.find_half(&of.reply).unwrap().index);
    let client = Tuple {
        destination_port: 443,
        ..of.client()
    };
    let taker = Connection {
        forward: Key::new(&client, TCP, Role::Forward),
        ..of
    };
    table.open(&taker, NOW).unwrap();
    assert!(!mend(
        &heap,
        &of,
        Role::Forward,
        Signal::acknowledge(7),
        LATER
    ));
    assert!(table.find(&of.forward).is_none());
    assert_eq!(check(&table), 1);
}
