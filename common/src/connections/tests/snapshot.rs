//! Connections that are carried from one table to another.

use alloc::vec::Vec;

use super::memory::{Heap, SECOND, connection};
use crate::{
    SCTP, TCP, UDP, V4,
    connections::{Connection, Meta, Phase, Signal, Snapshot},
};

const NOW: u32 = u32::MAX - 5;

fn all(heap: &Heap<V4>) -> Vec<Snapshot<V4>> {
    let slots = 0..heap.homes + 256;
    slots
        .filter_map(|index| heap.table().snapshot(index))
        .collect()
}

fn client(heap: &Heap<V4>, of: &Connection<V4>, signal: Signal, now: u32) {
    let hit = heap.table().find(&of.forward).unwrap();
    heap.table().observe(&hit, signal, now);
}

fn backend(heap: &Heap<V4>, of: &Connection<V4>, signal: Signal, now: u32) {
    let hit = heap.table().find(&of.reply).unwrap();
    heap.table().observe(&hit, signal, now);
}

#[test]
fn a_connection_is_as_far_in_the_table_that_it_is_carried_to() {
    let from = Heap::<V4>::new(97);
    let opened = |port, protocol, seen| {
        let new = connection(9, port, 1, protocol, seen);
        from.table().open(&new, NOW).unwrap();
        new
    };
    opened(1, TCP, Meta::OPENED);
    let half_open = opened(2, TCP, Meta::OPENED);
    backend(&from, &half_open, Signal::answer(501), NOW);
    let established = opened(3, TCP, Meta::OPENED);
    backend(&from, &established, Signal::answer(501), NOW);
    client(&from, &established, Signal::acknowledge(501), NOW + SECOND);
    opened(4, TCP, 0);
    let flow = opened(5, UDP, 0);
    backend(&from, &flow, Signal::DATA, NOW);
    let association = opened(6, SCTP, Meta::OPENED);
    backend(&from, &association, Signal::DATA, NOW);

    let to = Heap::<V4>::new(1009);
    let later = NOW.wrapping_add(4 * SECOND);
    for snapshot in all(&from) {
        to.table().carry(&snapshot, later).unwrap();
    }
    let sorted = |heap| {
        let mut all: Vec<_> = all(heap)
            .into_iter()
            .map(|one| (one.connection.client().source_port, one))
            .collect();
        all.sort_by_key(|(port, _)| *port);
        all
    };
    let (before, after) = (sorted(&from), sorted(&to));
    assert_eq!((before.len(), after.len()), (6, 6));
    for ((_, before), (_, after)) in before.iter().zip(&after) {
        assert_eq!(before.phase(), after.phase());
        assert_eq!(
            (before.forward, before.reply, before.mark),
            (after.forward, after.reply, after.mark)
        );
        assert_eq!(before.connection.reply, after.connection.reply);
        let of = |one: &Snapshot<V4>| {
            let Connection {
                generation,
                backend,
                service,
                ..
            } = one.connection;
            (generation, backend, service)
        };
        assert_eq!(of(before), of(after));
    }

    // Where the handshake was, it goes on.
    client(&to, &half_open, Signal::acknowledge(502), later);
    client(&to, &half_open, Signal::acknowledge(501), later);
    client(&to, &flow, Signal::DATA, later);
    let phase = |of: &Connection<V4>| to.table().snapshot_of(&of.forward).unwrap().1.phase();
    assert_eq!(phase(&half_open), Phase::Established);
    assert_eq!(phase(&flow), Phase::Lasting, "its first packet was then");
}

#[test]
fn a_connection_that_may_be_open_yet_is_not_forgotten_with_its_reset() {
    let heap = Heap::<V4>::new(97);
    let new = connection(9, 1, 1, TCP, Meta::OPENED);
    heap.table().open(&new, NOW).unwrap();
    let at = |seconds: u32| {
        let (_, snapshot) = heap.table().snapshot_of(&new.forward).unwrap();
        let now = NOW.wrapping_add(seconds * SECOND);
        let table = heap.table();
        let is_expired = table.is_expired(&snapshot, now);
        (is_expired, table.is_forgotten(&snapshot, now))
    };
    backend(&heap, &new, Signal::answer(501), NOW);
    backend(&heap, &new, Signal::RESET, NOW);
    assert_eq!(at(9), (false, false));
    assert_eq!(at(11), (true, true), "nothing had come of it");
    client(&heap, &new, Signal::acknowledge(501), NOW);
    assert_eq!(at(11), (false, false));
    client(&heap, &new, Signal::RESET, NOW);
    assert_eq!(at(9), (false, false));
    assert_eq!(at(11), (true, false));
    assert_eq!(at(24 * 3600 - 1), (true, false));
    assert_eq!(at(24 * 3600 + 1), (true, true));
}

#[test]
fn the_mark_of_the_table_that_is_further_counts() {
    for (in_from, in_to) in [(true, false), (false, true)] {
        let (from, to) = (Heap::<V4>::new(97), Heap::<V4>::new(97));
        let new = connection(9, 1, 1, TCP, Meta::OPENED);
        for (heap, is_answered) in [(&from, in_from), (&to, in_to)] {
            heap.table().open(&new, NOW).unwrap();
            if is_answered {
                backend(heap, &new, Signal::answer(501), NOW);
            }
        }
        let absorb = || {
            let (_, seen) = from.table().snapshot_of(&new.forward).unwrap();
            to.table().absorb(&seen);
        };
        let phase = || to.table().snapshot_of(&new.forward).unwrap().1.phase();
        absorb();
        client(&to, &new, Signal::acknowledge(501), NOW);
        assert_eq!(phase(), Phase::Established);
        // The client's FIN is seen here alone, and so is what acknowledges it.
        absorb();
        client(&to, &new, Signal::acknowledge(501).with_fin(701), NOW);
        absorb();
        backend(&to, &new, Signal::acknowledge(701), NOW);
        assert_eq!(phase(), Phase::Closing);
    }
    for (first, second) in [(NOW, NOW + 5), (NOW + 5, NOW)] {
        let (from, to) = (Heap::<V4>::new(97), Heap::<V4>::new(97));
        let flow = connection(9, 1, 1, UDP, 0);
        from.table().open(&flow, first).unwrap();
        to.table().open(&flow, second).unwrap();
        let (_, seen) = from.table().snapshot_of(&flow.forward).unwrap();
        to.table().absorb(&seen);
        let (_, both) = to.table().snapshot_of(&flow.forward).unwrap();
        assert_eq!(both.mark, NOW);
    }
}

#[test]
fn what_either_table_has_seen_counts() {
    let (from, to) = (Heap::<V4>::new(97), Heap::<V4>::new(97));
    let new = connection(9, 1, 1, TCP, Meta::OPENED);
    for heap in [&from, &to] {
        heap.table().open(&new, NOW).unwrap();
        backend(heap, &new, Signal::answer(501), NOW);
    }
    client(&from, &new, Signal::acknowledge(501), NOW + 1);
    backend(&to, &new, Signal::FIN, NOW + 3);
    let (_, seen) = from.table().snapshot_of(&new.forward).unwrap();
    to.table().absorb(&seen);
    let (_, both) = to.table().snapshot_of(&new.forward).unwrap();
    assert_eq!(both.phase(), Phase::Closing);
    assert_eq!((both.forward.last, both.reply.last), (NOW + 1, NOW + 3));
    assert!(to.table().end_snapshot(&both));
    assert_eq!(all(&to).len(), 0);
}
