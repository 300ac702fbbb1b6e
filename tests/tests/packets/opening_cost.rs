//! Cost of an opened connection, by the fill of the conntrack table, and of a list of it.
//!
//! `cargo test -p shunt-tests --test packets -- --ignored --nocapture opening_cost` prints it. To
//! compare two kinds of table, build this test with each and run the two in turn: only what one
//! run of each prints within the same minute compares.

use std::time::Instant;

use shunt_common::FlowKind;

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict, resync, web},
};

/// Entries of the table, as many as the agent creates by default.
const ENTRIES: u32 = 1 << 19;

/// Connections that are timed at each filling.
const TIMED: u32 = 20_000;

/// A new UDP flow: client `number` of 10.9.0.0/16, from a port that is different each time.
fn frame(number: u32) -> Vec<u8> {
    let [_, _, high, low] = number.to_be_bytes();
    let port = 1024 + (number / 251) as u16;
    let client = [10, 9, high, low];
    Packet::new(Transport::Udp, (client, port), ([10, 96, 0, 1], 80)).frame()
}

/// Opens the next `count` connections, and returns what each took, in nanoseconds, sorted, and how
/// many were refused.
fn open(node: &mut Node, next: &mut u32, count: u32) -> (Vec<u128>, usize) {
    let mut refused = 0;
    let mut times: Vec<u128> = (0..count)
        .map(|_| {
            let frame = frame(*next);
            *next += 1;
            let (verdict, time) = node.timed_ingress(&frame);
            refused += usize::from(verdict == Verdict::Drop);
            time.as_nanos()
        })
        .collect();
    times.sort_unstable();
    (times, refused)
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn opening_cost() {
    needs_root!();
    let mut node = Node::with_conntrack(ENTRIES, [resync(&[&web(&[(3, 1), (4, 1)])]).as_str()]);
    let mut next = 0;
    for (filling, used) in [
        ("empty", 0),
        ("half", ENTRIES / 4),
        ("7/8", ENTRIES / 16 * 7),
        ("full", ENTRIES / 2),
    ] {
        let missing = used.saturating_sub(next);
        open(&mut node, &mut next, missing);
        let (times, refused) = open(&mut node, &mut next, TIMED);
        let at = |hundredths: usize| times[times.len() * hundredths / 10_000];
        println!(
            "{filling:>6}: p50 {} ns, p90 {} ns, p99 {} ns, p99.9 {} ns, {refused} refused",
            at(5000),
            at(9000),
            at(9900),
            at(9990),
        );
    }
}

#[test]
#[ignore = "measures, and asserts nothing"]
fn listing_cost() {
    needs_root!();
    let mut node = Node::with_conntrack(ENTRIES, [resync(&[&web(&[(3, 1), (4, 1)])]).as_str()]);
    let mut next = 0;
    for used in [0, ENTRIES / 4, ENTRIES / 2] {
        let missing = used - next;
        open(&mut node, &mut next, missing);
        let start = Instant::now();
        let listed = node.connections().len();
        println!("{listed} connections were listed in {:?}", start.elapsed());
    }
}

/// Number of connections that each node opens in turn.
const TURN: u32 = 500;

#[test]
#[ignore = "measures, and asserts nothing"]
fn telling_cost() {
    needs_root!();
    let events = resync(&[&web(&[(3, 1), (4, 1)])]);
    let nodes = [None, Some(100), Some(1)].map(|one_in| {
        let mut node = Node::with_conntrack(ENTRIES, [events.as_str()]);
        let reader = one_in.map(|one_in| node.watch(FlowKind::ALL, one_in));
        (one_in, node, reader, Vec::new())
    });
    let mut nodes = nodes;
    let mut next = 0;
    while next < 40 * TURN {
        for (_, node, reader, times) in &mut nodes {
            let mut own = next;
            times.extend(open(node, &mut own, TURN).0);
            if let Some(reader) = reader {
                while reader.next_flow().is_some() {}
            }
        }
        next += TURN;
    }
    for (one_in, _, _, times) in &mut nodes {
        times.sort_unstable();
        let at = |tenths: usize| times[times.len() * tenths / 10];
        println!(
            "told of one in {one_in:?}: p10 {} ns, p50 {} ns",
            at(1),
            at(5)
        );
    }
}
