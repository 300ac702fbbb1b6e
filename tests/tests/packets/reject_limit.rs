//! Numbers of packets that are rejected, and that are only dropped.

use std::time::{Duration, Instant};

use shunt_datapath::RejectLimit;

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{Node, Verdict},
    reports::unreachable,
    world::{Backends, Family, V4, V6, node_with},
};

fn node(rate: u32) -> Node {
    node_with(
        |options| options.rejects = RejectLimit { rate },
        Backends::Nowhere,
    )
}

/// Returns whether a packet without a backend was rejected, or else dropped.
fn is_rejected<A: Family>(node: &mut Node) -> bool {
    let packet = Packet::new(Transport::TcpSyn, (A::OUTSIDER, 1), (A::CLUSTER_IP, 80));
    match node.rejecting_ingress(&packet.frame()) {
        Verdict::Drop => false,
        rejected => {
            assert_eq!(rejected, Verdict::Redirect(unreachable(&packet)));
            true
        }
    }
}

#[test]
fn both_families_have_one_limit_and_what_is_beyond_it_is_dropped() {
    needs_root!();
    let mut node = node(1);
    assert!(is_rejected::<V4>(&mut node), "the first");
    let begin = Instant::now();
    let mut dropped = 0;
    // The next one is due after a second.
    while !is_rejected::<V6>(&mut node) {
        dropped += 1;
        assert!(begin.elapsed() < Duration::from_secs(20), "none any more");
    }
    let elapsed = begin.elapsed();
    assert!(elapsed > Duration::from_millis(900), "{elapsed:?}");
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(
        counters,
        [("drop_reject_rate", dropped), ("reject_no_backend", 2)]
    );
}

#[test]
fn after_a_silence_as_many_as_the_burst_are_rejected() {
    needs_root!();
    // A burst of 3, and another one each 16 ms.
    let mut node = node(60);
    let begin = Instant::now();
    let rejected = (0..50).filter(|_| is_rejected::<V4>(&mut node)).count();
    let due = 3 + begin.elapsed().as_millis() as usize / 16 + 1;
    assert!((3..=due).contains(&rejected), "{rejected} of {due}");
}

#[test]
fn without_a_limit_everything_is_rejected() {
    needs_root!();
    let mut node = node(0);
    for _ in 0..500 {
        assert!(is_rejected::<V4>(&mut node));
        assert!(is_rejected::<V6>(&mut node));
    }
    let counters: Vec<_> = node.counters().into_iter().collect();
    assert_eq!(counters, [("reject_no_backend", 1000)]);
}
