//! Client ports that are used again and again, with other backends each time.

use std::{collections::BTreeMap, thread};

use shunt_tests::{Connection, Target, Transport, addresses, by_length, passing};

use crate::{
    attack::{both, connect_when_free, listed},
    dual_stack::{service, world},
    world::{REQUEST, World},
};

/// The ports of each client.
const PORTS: u16 = 40;

/// How often each of them is used with each set of backends.
const ROUNDS: usize = 3;
const LONG_ROUNDS: usize = 200;

/// How often the backends change.
const CHANGES: usize = 6;

/// Longer than whatever has ended is remembered.
const TIMEOUTS: u32 = 150;

/// One connection from this port, that ends in one of the ways in which they do.
fn use_port(target: Target, number: usize) {
    let mut connection = connect_when_free(target);
    connection.echo(REQUEST).unwrap();
    if number % 3 == 1 {
        drop(connection.part().unwrap());
    } else {
        connection.reset().unwrap();
    }
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
                        from.enter(|| {
                            for round in 0..by_length(ROUNDS, LONG_ROUNDS) {
                                for port in 0..PORTS {
                                    let target = target.from_port(14_000 + port);
                                    use_port(target, round + usize::from(port));
                                }
                            }
                        });
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
