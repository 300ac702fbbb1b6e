//! Client ports that are used again and again, with other backends each time.

use std::{collections::BTreeMap, thread};

use shunt_tests::{Connection, Failure, Sandbox, Target, Transport, addresses, by_length, passing};

use crate::{
    attack::{both, connect_when_free, listed, try_when_free},
    control,
    dual_stack::{service, world},
    service::Service,
    world::{REQUEST, World},
};

/// The ports of each client.
const PORTS: u16 = 40;

/// Number of times that each of them is used with each set of backends.
const ROUNDS: usize = 3;
const LONG_ROUNDS: usize = 200;

/// Number of changes of the backends.
const CHANGES: usize = 6;

/// Longer than whatever has ended is remembered.
const TIMEOUTS: u32 = 150;

/// One connection from this port, that ends in one of the ways in which they do.
fn use_port(target: Target, number: usize) -> Result<(), Failure> {
    let mut connection = try_when_free(target)?;
    connection.echo(REQUEST)?;
    if number % 3 == 1 {
        connection.part().map(drop)
    } else {
        connection.reset()
    }
}

/// Uses each of a client's ports so often; returns what went wrong.
fn use_ports(target: Target, rounds: usize) -> Vec<Failure> {
    let ports = (0..rounds).flat_map(|round| (0..PORTS).map(move |port| (round, port)));
    let used = ports.map(|(round, port)| {
        let target = target.from_port(14_000 + port);
        use_port(target, round + usize::from(port))
    });
    used.filter_map(Result::err).collect()
}

/// The clients' ports as they are listed, and how many sockets there are.
fn assert_listed(world: &World, sockets: &[Connection]) {
    let mut expected = BTreeMap::<(u16, String), usize>::new();
    for socket in sockets {
        let of = (socket.client().port(), "ESTABLISHED".to_owned());
        *expected.entry(of).or_default() += 1;
    }
    let mut found = BTreeMap::<(u16, String), usize>::new();
    for row in listed(world) {
        *found.entry(row).or_default() += 1;
    }
    assert_eq!(found, expected, "the sockets that exist, and no others");
}

#[test]
fn reused_ports_leave_nothing_behind() {
    let Some(mut world) = world() else {
        return;
    };
    let sets = [
        ["pod-a", "pod-b"].as_slice(),
        &["pod-b", "pod-d"],
        &["pod-d"],
        &["pod-a", "pod-d"],
    ];
    let mut open = Vec::new();
    for change in 0..CHANGES {
        let web = service(&world, Transport::Tcp, sets[change % sets.len()]);
        world.apply(&web.event("UpdateService"));
        let clients = [
            (world.client_pod(), web.cluster_ip()),
            (world.sandbox.outside(), web.node_port()),
            (world.sandbox.node2(), web.node_port_at(addresses::NODE)),
        ];
        thread::scope(|scope| {
            for (from, target) in clients {
                for target in both(target) {
                    scope.spawn(move || {
                        let rounds = by_length(ROUNDS, LONG_ROUNDS);
                        let failed = from.enter(|| use_ports(target, rounds));
                        assert!(failed.is_empty(), "{target:?}: {failed:?}");
                    });
                }
            }
        });
        // Some stay.
        for (from, target) in clients {
            for target in both(target) {
                let port = 15_000 + u16::try_from(change).unwrap();
                let mut connection = from.enter(|| connect_when_free(target.from_port(port)));
                connection.echo(REQUEST).unwrap();
                open.push(connection);
            }
        }
    }
    passing::let_pass(|map| passing::of_pins(&world.pins, map), TIMEOUTS).unwrap();
    assert_listed(&world, &open);
    for connection in &mut open {
        connection.echo(REQUEST).unwrap();
    }
    // And half of those end, too.
    for (number, connection) in open.split_off(open.len() / 2).into_iter().enumerate() {
        if number % 2 == 0 {
            connection.reset().unwrap();
        } else {
            connection.part().unwrap();
        }
    }
    passing::let_pass(|map| passing::of_pins(&world.pins, map), TIMEOUTS).unwrap();
    assert_listed(&world, &open);
}

/// Returns the number of connections that fail from ports that are used again and again, and of all.
fn failures(sandbox: &Sandbox) -> (usize, usize) {
    let web = Service::new(Transport::Tcp);
    let clients = [
        (sandbox.pod("pod-c").namespace(), web.cluster_ip()),
        (sandbox.outside(), web.node_port()),
    ];
    let failed = thread::scope(|scope| {
        clients
            .map(|(from, target)| {
                scope.spawn(move || {
                    let failed = from.enter(|| use_ports(target, ROUNDS));
                    failed.len()
                })
            })
            .map(|client| client.join().unwrap())
    });
    let all = clients.len() * ROUNDS * usize::from(PORTS);
    (failed.iter().sum(), all)
}

#[test]
fn no_more_reused_ports_fail_than_with_nftables() {
    let pods = [addresses::POD_A, addresses::POD_B, addresses::POD_D];
    let Some(rules) = control::ruled(&[control::web(&pods)]) else {
        return;
    };
    let mut world = world().unwrap();
    let web = service(&world, Transport::Tcp, &["pod-a", "pod-b", "pod-d"]);
    world.add(&web);
    let (theirs, all) = failures(&rules);
    let (ours, _) = failures(&world.sandbox);
    println!("of {all} connections fail: {theirs} with nftables, {ours} here");
    assert_eq!(ours, 0);
}
