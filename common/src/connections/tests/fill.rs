//! Full tables, and floods.

use alloc::vec::Vec;

use crate::{
    TCP, UDP, V4,
    connections::{
        Connection, Key, Meta, Phase, Refused, Role, Signal,
        tests::{
            integrity::check,
            memory::{Heap, SECOND, TIMEOUTS, connection, looked_up},
        },
    },
};

/// Number `number` of many connections of a protocol, each from its client's own address and port.
fn direct(number: u32, protocol: u8, seen: u16) -> Connection<V4> {
    connection(
        0x0a80_0000 + number / 4096,
        20_480 + (number % 4096) as u16,
        0x0a01_0103 + number % 7,
        protocol,
        seen,
    )
}

/// TCP connection number `number`, through SNAT or not.
fn numbered(number: u32) -> Connection<V4> {
    let mut new = direct(number, TCP, Meta::OPENED);
    if number.is_multiple_of(3) {
        let mut translated = new.translated();
        translated.source = 0xc0a8_100a_u32.to_be();
        translated.destination = (0x0a02_0000 + number / 3000).to_be();
        translated.source_port = (61_000 + (number / 3 % 1000) as u16).to_be();
        new.reply = Key::new(&translated.reversed(), TCP, Role::Reply);
    }
    new
}

fn establish(heap: &Heap<V4>, new: &Connection<V4>, now: u32) -> bool {
    let table = heap.table();
    let Some(hit) = looked_up(&table, &new.reply, false, now) else {
        return false;
    };
    table.observe(&hit, Signal::answer(5), now);
    let Some(hit) = looked_up(&table, &new.forward, false, now) else {
        return false;
    };
    table.observe(&hit, Signal::acknowledge(5), now);
    is_established(heap, new)
}

fn is_established(heap: &Heap<V4>, of: &Connection<V4>) -> bool {
    let table = heap.table();
    table
        .find(&of.forward)
        .and_then(|hit| table.pair(hit.half()))
        .is_some_and(|pair| Phase::of(pair.forward.meta, pair.reply.meta) == Phase::Established)
}

#[test]
fn established_connections_are_not_refused() {
    const HALVES: u32 = 1 << 17;
    let heap = Heap::<V4>::for_halves(HALVES);
    let all: Vec<_> = (0..HALVES / 2).map(numbered).collect();
    for new in &all {
        assert_eq!(heap.table().open(new, 0), Ok(()));
        assert!(establish(&heap, new, 0));
    }
    assert!(all.iter().all(|it| is_established(&heap, it)));
    assert_eq!(check(&heap.table()), all.len());
}

#[test]
fn beyond_what_was_promised_much_more_fits_and_nobody_established_gives_way() {
    const HALVES: u32 = 1 << 12;
    let heap = Heap::<V4>::for_halves(HALVES);
    let mut open = Vec::new();
    let mut refused = 0;
    for number in 0..HALVES {
        let new = numbered(number);
        match heap.table().open(&new, 0) {
            Ok(()) => {
                assert!(establish(&heap, &new, 0));
                open.push(new);
            }
            Err(Refused::Full | Refused::Contended) => refused += 1,
            Err(Refused::Exists) => panic!("{number} is new"),
        }
    }
    assert!(refused > 0, "it is twice what was promised");
    assert!(open.iter().all(|it| is_established(&heap, it)));
    assert!(
        open.len() * 10 > HALVES as usize * 6,
        "{} of {HALVES}",
        open.len()
    );
    check(&heap.table());
}

#[test]
fn a_flood_displaces_nobody_established_and_lets_new_ones_in() {
    const HALVES: u32 = 1 << 15;
    const OPEN: u32 = HALVES / 2 / 8 * 5;
    // As many a tick that the table is turned over in some five seconds.
    const FLOOD_A_TICK: u32 = HALVES / 2 / 5 / SECOND;
    let heap = Heap::<V4>::for_halves(HALVES);
    let mut open: Vec<_> = (0..OPEN).map(numbered).collect();
    for new in &open {
        heap.table().open(new, 0).unwrap();
        assert!(establish(&heap, new, 0));
    }
    let mut next = 10 * HALVES;
    let mut shaking: Vec<Connection<V4>> = Vec::new();
    for tick in 1..40 * SECOND {
        // A client that has knocked in the tick before is answered in this one.
        for new in shaking.drain(..) {
            assert!(
                establish(&heap, &new, tick),
                "an honest client was displaced"
            );
            open.push(new);
        }
        for _ in 0..FLOOD_A_TICK {
            let half_open = numbered(next);
            next += 1;
            assert_eq!(heap.table().open(&half_open, tick), Ok(()));
            if let Some(hit) = heap.table().find(&half_open.reply) {
                heap.table().observe(&hit, Signal::answer(5), tick);
            }
        }
        let honest = numbered(5 * HALVES + tick);
        assert_eq!(heap.table().open(&honest, tick), Ok(()));
        shaking.push(honest);
    }
    assert!(open.iter().all(|it| is_established(&heap, it)));
    check(&heap.table());
}

/// A client that both sides have heard, and whose connection had a reset of unknown origin.
fn reset(heap: &Heap<V4>, new: &Connection<V4>, now: u32) {
    let table = heap.table();
    let hit = looked_up(&table, &new.forward, false, now).unwrap();
    table.observe(&hit, Signal::RESET, now);
}

#[test]
fn a_reset_alone_costs_no_connection_its_slot_in_a_flood() {
    const HALVES: u32 = 1 << 12;
    // The part of the table that is established, in eighths, and the speed at which the flood turns over the rest.
    for (eighths, seconds) in [(1, 5), (5, 5), (8, 5), (5, 1)] {
        let heap = Heap::<V4>::for_halves(HALVES);
        let open: Vec<_> = (0..HALVES / 2 / 8 * eighths).map(numbered).collect();
        for new in &open {
            heap.table().open(new, 0).unwrap();
            assert!(establish(&heap, new, 0));
        }
        let resets: Vec<_> = open.iter().step_by(16).collect();
        for new in &resets {
            reset(&heap, new, 0);
        }
        let mut next = 10 * HALVES;
        for tick in 1..60 * SECOND {
            for _ in 0..HALVES / 2 / seconds / SECOND {
                let _ = heap.table().open(&numbered(next), tick);
                next += 1;
            }
        }
        for new in resets {
            let hit = looked_up(&heap.table(), &new.forward, false, 60 * SECOND);
            let hit = hit.unwrap_or_else(|| panic!("{eighths} eighths, {seconds} s"));
            heap.table().observe(&hit, Signal::DATA, 60 * SECOND);
        }
        assert!(open.iter().all(|it| is_established(&heap, it)));
        check(&heap.table());
    }
}

#[test]
fn connections_that_end_by_resets_make_room_and_no_handshake_does() {
    const HALVES: u32 = 1 << 12;
    const OPEN: u32 = HALVES / 2 / 8 * 5;
    // They fill the table within some ten seconds.
    const A_TICK: u32 = HALVES / 2 / 10 / SECOND;
    let heap = Heap::<V4>::for_halves(HALVES);
    let open: Vec<_> = (0..OPEN).map(numbered).collect();
    for new in &open {
        heap.table().open(new, 0).unwrap();
        assert!(establish(&heap, new, 0));
    }
    let mut shaking: Vec<Connection<V4>> = Vec::new();
    let mut next = 10 * HALVES;
    for tick in 1..100 * SECOND {
        for new in shaking.drain(..) {
            assert!(establish(&heap, &new, tick), "a handshake was cut off");
            reset(&heap, &new, tick);
        }
        for _ in 0..A_TICK {
            let new = numbered(next);
            next += 1;
            assert_eq!(heap.table().open(&new, tick), Ok(()));
            shaking.push(new);
        }
    }
    assert!(open.iter().all(|it| is_established(&heap, it)));
    check(&heap.table());
}

#[test]
fn a_small_table_keeps_all_promises_too() {
    const HALVES: u32 = 64;
    for base in (0..100).map(|round| round * 10_000) {
        let heap = Heap::<V4>::for_halves(HALVES);
        let open: Vec<_> = (base..base + HALVES / 2).map(numbered).collect();
        for new in &open {
            assert_eq!(heap.table().open(new, 0), Ok(()));
            assert!(establish(&heap, new, 0));
        }
        for number in base + 1000..base + 2000 {
            assert_eq!(
                heap.table().open(&numbered(number), (number - base) / 100),
                Ok(())
            );
        }
        assert!(open.iter().all(|it| is_established(&heap, it)));
        check(&heap.table());
    }
}

/// UDP flow number `number`.
fn flow(number: u32) -> Connection<V4> {
    direct(number, UDP, 0)
}

/// A packet of the half with this key; whether its flow is there.
fn passes(heap: &Heap<V4>, key: &Key<V4>, now: u32) -> bool {
    let table = heap.table();
    let Some(hit) = looked_up(&table, key, true, now) else {
        return false;
    };
    table.observe(&hit, Signal::DATA, now);
    true
}

#[test]
fn a_flow_that_goes_on_after_a_silence_stays_until_it_is_answered() {
    const HALVES: u32 = 1 << 10;
    const A_TICK: u32 = HALVES / 64;
    // Number of others that begin while an answer is on its way.
    const MEANWHILE: u32 = 8;
    let heap = Heap::<V4>::for_halves(HALVES);
    let mut next = 0;
    let mut gone_on = 0;
    for tick in 1..1000 {
        for _ in 0..A_TICK {
            let new = flow(next);
            next += 1;
            assert_eq!(heap.table().open(&new, tick), Ok(()));
            assert!(passes(&heap, &new.reply, tick));
        }
        // The oldest that is still there.
        let oldest = (0..next).rev().map(flow).take(HALVES as usize);
        let mut oldest = oldest.filter(|it| heap.table().find(&it.forward).is_some());
        let Some(old) = oldest.next_back().filter(|_| next > 4 * HALVES) else {
            continue;
        };
        assert!(passes(&heap, &old.forward, tick));
        for _ in 0..MEANWHILE {
            assert_eq!(heap.table().open(&flow(next), tick), Ok(()));
            next += 1;
        }
        assert!(passes(&heap, &old.reply, tick), "no answer in tick {tick}");
        gone_on += 1;
    }
    assert!(gone_on > 500, "{gone_on}");
    check(&heap.table());
}

#[test]
fn flows_of_one_way_let_new_ones_in() {
    const HALVES: u32 = 1 << 10;
    let heap = Heap::<V4>::for_halves(HALVES);
    let flows: Vec<_> = (0..HALVES).map(flow).collect();
    for tick in 0..60 * SECOND {
        // No backend answers, and none of them is silent.
        for flow in &flows {
            if !passes(&heap, &flow.forward, tick) {
                assert_eq!(heap.table().open(flow, tick), Ok(()), "tick {tick}");
            }
        }
        for number in 0..8 {
            let new = flow(HALVES + 8 * tick + number);
            assert_eq!(heap.table().open(&new, tick), Ok(()), "tick {tick}");
        }
    }
    check(&heap.table());
}

/// Opens a flow that is not given up for room.
fn lasting(heap: &Heap<V4>, new: &Connection<V4>) {
    let later = TIMEOUTS.lasting + 1;
    heap.table().open(new, 0).unwrap();
    for (key, now) in [
        (&new.reply, 0),
        (&new.forward, later),
        (&new.reply, later + 1),
    ] {
        assert!(passes(heap, key, now));
    }
}

#[test]
fn flows_of_one_way_hide_nobody_whose_time_is_over() {
    const HALVES: u32 = 1 << 10;
    const STREAMS: u32 = 30;
    let heap = Heap::<V4>::for_halves(HALVES);
    let flows: Vec<_> = (0..200).map(flow).collect();
    for flow in &flows {
        lasting(&heap, flow);
    }
    // Nothing else is left.
    let mut open: Vec<_> = (0..20 * HALVES).map(numbered).collect();
    open.retain(|new| heap.table().open(new, 20).is_ok() && establish(&heap, new, 20));
    let (streams, silent) = flows.split_at(STREAMS as usize);
    for tick in 20..200 * SECOND {
        for stream in streams {
            assert!(passes(&heap, &stream.forward, tick));
        }
        for quiet in silent.iter().filter(|_| tick < 40 * SECOND) {
            assert!(passes(&heap, &quiet.forward, tick) && passes(&heap, &quiet.reply, tick));
        }
    }
    let end = 200 * SECOND;
    for number in 0..100 {
        let new = flow(1000 + number);
        // Those that seemed to be over are known by then.
        let opens = (0..2).any(|_| heap.table().open(&new, end).is_ok());
        assert!(opens, "{number}");
    }
    assert!(streams.iter().all(|it| passes(&heap, &it.forward, end)));
    assert!(open.iter().all(|it| is_established(&heap, it)));
    check(&heap.table());
}

#[test]
fn a_crowded_home_takes_new_ones_and_keeps_who_stays() {
    const OPEN: u32 = 4;
    // All are at home in one slot, or in the one behind it.
    let heap = Heap::<V4>::new(1);
    let open: Vec<_> = (0..OPEN).map(numbered).collect();
    for new in &open {
        assert_eq!(heap.table().open(new, 0), Ok(()));
        assert!(establish(&heap, new, 0));
    }
    for tick in 1..100 {
        let new = flow(tick);
        assert_eq!(heap.table().open(&new, tick), Ok(()), "tick {tick}");
        assert!(passes(&heap, &new.reply, tick));
    }
    assert!(open.iter().all(|it| is_established(&heap, it)));
    check(&heap.table());
}
