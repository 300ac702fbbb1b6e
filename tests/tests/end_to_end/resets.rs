//! Resets that any host may have sent, and connections that are refused.

use std::{thread, time::Duration};

use shunt_tests::{
    Answer, Connection, Failure, Namespace, Random, Sandbox, Target, Transport, addresses,
    by_length,
    raw::{Packet, What, Wire},
};

use crate::{
    attack::listed,
    control,
    dual_stack::{Family, service, world_with_flags},
    service::Service,
    world::{REQUEST, World},
};

/// Time for which a connection that was reset is remembered.
const CLOSED: &str = "1s";

/// Longer than that.
const SILENCE: Duration = Duration::from_millis(2500);

/// Number of resets that each connection gets.
const RESETS: usize = 20;

const CLIENT_PORTS: [u16; 2] = [25_300, 25_301];

/// Sends the connection resets with sequence numbers that no side expects.
fn attack(from: &Namespace, connection: &Connection, target: Target, random: &mut Random) {
    from.enter(|| {
        let mut wire = Wire::open(target.address().ip()).unwrap();
        for _ in 0..RESETS {
            wire.send(&Packet {
                from: connection.client(),
                to: target.address(),
                sequence: random.word(),
                what: What::Reset,
            })
            .unwrap();
        }
    });
}

fn open(from: &Namespace, target: Target) -> (Connection, Answer) {
    from.enter(|| {
        let mut connection = target.connect().unwrap();
        let answer = connection.echo(REQUEST).unwrap();
        (connection, answer)
    })
}

/// Connections of clients here and outside that were reset so.
fn attacked(
    sandbox: &Sandbox,
    families: &[Family],
    random: &mut Random,
) -> Vec<(Target, Connection, Answer)> {
    let service = Service::new(Transport::Tcp);
    let mut all = Vec::new();
    for family in families {
        for (from, target) in [
            (sandbox.pod("pod-c").namespace(), service.cluster_ip()),
            (sandbox.outside(), service.node_port()),
        ] {
            let target = family.target(target);
            for _ in 0..6 {
                let (connection, answer) = open(from, target);
                attack(from, &connection, target, random);
                all.push((target, connection, answer));
            }
        }
    }
    all
}

/// All are where they were.
#[track_caller]
fn go_on(all: &mut [(Target, Connection, Answer)]) {
    for (target, connection, first) in all {
        let answer = connection.echo(REQUEST);
        let answer = answer.unwrap_or_else(|failure| panic!("{target:?}: {failure}"));
        assert_eq!((answer.backend, answer.peer), (first.backend, first.peer));
    }
}

#[test]
fn a_reset_that_the_backend_ignores_ends_nothing_in_a_table_of_another_size() {
    let flags = ["--conntrack-tcp-timeout-closed", CLOSED];
    let Some(mut world) = world_with_flags(&flags) else {
        return;
    };
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]);
    world.add(&tcp);
    let mut all = attacked(&world.sandbox, &Family::BOTH, &mut Random::new(5, 6));
    thread::sleep(SILENCE);
    let flags = [&flags[..], &["--max-conntrack", "100000"]].concat();
    let _world = world.killed().start(&flags);
    go_on(&mut all);
}

#[test]
fn a_reset_that_the_backend_ignores_ends_nothing() {
    let Some(mut world) = world_with_flags(&["--conntrack-tcp-timeout-closed", CLOSED]) else {
        return;
    };
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]);
    world.add(&tcp);
    let mut random = Random::new(5, 5);
    for _ in 0..by_length(1, 20) {
        let mut all = attacked(&world.sandbox, &Family::BOTH, &mut random);
        thread::sleep(SILENCE);
        go_on(&mut all);
        // What was revived is as it was.
        let listed = listed(&world);
        for (target, connection, _) in &all {
            let of = (connection.client().port(), "ESTABLISHED".to_owned());
            assert!(listed.contains(&of), "{of:?} to {target:?}: {listed:?}");
        }
        thread::sleep(SILENCE);
        for (_, connection, first) in &mut all {
            assert_eq!(connection.echo(REQUEST).unwrap().peer, first.peer);
        }
    }
}

/// Returns the number of connections that were reset so and go on with their backends, and of all.
fn survivors(sandbox: &Sandbox) -> (usize, usize) {
    let mut all = attacked(sandbox, &[Family::V4], &mut Random::new(5, 7));
    thread::sleep(SILENCE);
    let go_on = all.iter_mut().filter_map(|(_, connection, first)| {
        let answer = connection.echo(REQUEST).ok()?;
        (answer.backend == first.backend).then_some(())
    });
    (go_on.count(), all.len())
}

#[test]
fn no_more_connections_are_lost_by_resets_than_with_nftables() {
    let pods = [addresses::POD_A, addresses::POD_B, addresses::POD_D];
    let Some(rules) = control::ruled(&[control::web(&pods)]) else {
        return;
    };
    let mut world = world_with_flags(&["--conntrack-tcp-timeout-closed", CLOSED]).unwrap();
    let tcp = service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]);
    world.add(&tcp);
    // netfilter judges a reset by its sequence number, and forgets who was reset by a right one.
    let (theirs, all) = survivors(&rules);
    let (ours, _) = survivors(&world.sandbox);
    println!("of {all} connections go on: {theirs} with nftables, {ours} here");
    assert_eq!(ours, all);
}

#[test]
fn a_port_that_was_refused_begins_clean() {
    let Some(mut world) = world_with_flags(&["--conntrack-tcp-timeout-closed", CLOSED]) else {
        return;
    };
    for (family, client_port) in Family::BOTH.into_iter().zip(CLIENT_PORTS) {
        let serves = service(&world, Transport::Tcp, &["pod-a"]);
        let mut closed = family.backend(&world, "pod-a");
        closed.set_port(9);
        let refuses = Service::new(Transport::Tcp).dual_stack().backend(closed);
        for round in 0..by_length(3, 50) {
            world.apply(&refuses.event("UpdateService"));
            let target = family.target(refuses.cluster_ip()).from_port(client_port);
            let refused = world.client_pod().enter(|| target.connect().map(drop));
            assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
            world.update(&serves);
            let (mut connection, first) = open(world.client_pod(), target);
            let of_port = |world: &World| {
                let mut listed = listed(world);
                listed.retain(|(port, _)| *port == client_port);
                listed
            };
            let one = [(client_port, "ESTABLISHED".to_owned())];
            assert_eq!(of_port(&world), one, "round {round}");
            if round == 0 {
                thread::sleep(SILENCE);
            }
            assert_eq!(connection.echo(REQUEST).unwrap().peer, first.peer);
            assert_eq!(of_port(&world), one, "round {round}");
            // By both sides: after a reset the next SYN would reach the backend that has gone, which answers.
            connection.part().unwrap();
        }
    }
}
