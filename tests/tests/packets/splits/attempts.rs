//! Attempts to connect to a service that refuses a share of its connections: what a SYN gets, each repetition of it gets.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use shunt_datapath::RejectLimit;
use shunt_tests::patience;

use super::world::{assert_share, partly_refused};
use crate::{
    both_families,
    dsr::world::{counted, in_both},
    frame::{Packet, SCTP_INIT, Transport},
    node::{Node, Verdict},
    reports::unreachable,
    world::{Backends, Family, cluster},
};

/// The first packet of an attempt from this port, which is told from others by a number.
fn first_packet<A: Family>(protocol: Transport, port: u16, number: u32) -> Packet<A> {
    let of = |transport| Packet::new(transport, (A::OUTSIDER, port), (A::EXTERNAL_IP, 80));
    match protocol {
        Transport::TcpSyn => of(Transport::TcpSynAt(number)),
        // The initiate tag is the first field of the chunk's value.
        sctp => Packet {
            payload: [number.to_be_bytes().as_slice(), &[1; 12]].concat(),
            ..of(sctp)
        },
    }
}

/// Returns whether the packet is refused; `None` if it is dropped.
#[track_caller]
fn is_refused<A: Family>(node: &mut Node, packet: &Packet<A>) -> Option<bool> {
    match node.rejecting_ingress(&packet.frame()) {
        Verdict::Drop => None,
        verdict => Some(verdict == Verdict::Redirect(unreachable(packet))),
    }
}

both_families!(each_packet_of_an_attempt_gets_the_same_and_another_attempt_is_drawn_for in in_both);
fn each_packet_of_an_attempt_gets_the_same_and_another_attempt_is_drawn_for<A: Family>() {
    let event = partly_refused(&cluster(Backends::Elsewhere), 1);
    let unlimited = RejectLimit { rate: 0 };
    let mut node = Node::with(|options| options.rejects = unlimited, [event.as_str()]);
    for protocol in [Transport::TcpSyn, Transport::Sctp(SCTP_INIT)] {
        let (mut refused, mut served_later) = (0, 0);
        for port in 20_000..20_200 {
            let mut attempt = |number| {
                let packet = first_packet::<A>(protocol, port, number);
                let first = is_refused(&mut node, &packet);
                for _ in 0..5 {
                    assert_eq!(is_refused(&mut node, &packet), first, "{packet:?}");
                }
                first == Some(true)
            };
            if attempt(1) {
                refused += 1;
                served_later += u32::from(!attempt(0x9a3c_1e57));
            }
        }
        assert!(
            (60..140).contains(&refused),
            "{refused} of 200 {protocol:?}"
        );
        assert!(
            (refused / 4..refused * 3 / 4).contains(&served_later),
            "{served_later} of {refused} {protocol:?} that were refused at first"
        );
    }
    assert_eq!(counted(&node, "drop_corrupt"), 0);
}

both_families!(the_limit_of_errors_does_not_limit_the_refused_share in in_both);
fn the_limit_of_errors_does_not_limit_the_refused_share<A: Family>() {
    const ATTEMPTS: u32 = 20_000;
    let event = partly_refused(&cluster(Backends::Elsewhere), 3);
    let mut node = Node::with(
        |options| options.sizes.conntrack = 1 << 17,
        [event.as_str()],
    );
    let attempts = (0..ATTEMPTS).zip(20_000..);
    let mut waiting: VecDeque<Packet<A>> = attempts
        .map(|(number, port)| {
            first_packet(Transport::TcpSyn, port, number.wrapping_mul(0x9e37_79b9))
        })
        .collect();
    let (mut refused, mut dropped) = (0, 0);
    let deadline = Instant::now() + patience(Duration::from_mins(1));
    while let Some(packet) = waiting.pop_front() {
        match is_refused(&mut node, &packet) {
            Some(is_refused) => refused += u32::from(is_refused),
            // Its client hears nothing and sends it again.
            None => {
                dropped += 1;
                waiting.push_back(packet);
                assert!(Instant::now() < deadline, "{} wait", waiting.len());
            }
        }
    }
    assert_share(refused, ATTEMPTS, 0.25);
    assert_eq!(counted(&node, "reject_no_backend"), u64::from(refused));
    assert_eq!(counted(&node, "drop_reject_rate"), dropped);
    assert_eq!(node.connections().len() as u32, ATTEMPTS - refused);
}
