//! A client port that is used again.

use std::{io::ErrorKind, time::Duration};

use shunt_tests::{Answer, Connection, Failure, Target, Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World},
};

const CLIENT_PORT: u16 = 25_000;

const SOON: Duration = Duration::from_secs(2);

const ROUNDS: u32 = 20;

/// Connects as soon as the kernel lets the port go: it keeps it until its last FIN is acknowledged,
/// or while a child that another test is just starting still has the socket.
fn reconnect(target: Target) -> Connection {
    wait_until("the client's port is free again", SOON, || {
        match target.connect() {
            Err(Failure::Other(error)) if error.kind() == ErrorKind::AddrNotAvailable => None,
            outcome => Some(outcome),
        }
    })
    .unwrap()
    .unwrap()
}

#[test]
fn a_second_connection_from_the_same_port_is_a_new_connection() {
    let Some(mut world) = World::new() else {
        return;
    };
    let pods = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let service = pods
        .into_iter()
        .fold(Service::new(Transport::Tcp), Service::backend);
    world.add(&service);
    let target = service.cluster_ip().from_port(CLIENT_PORT);
    world.client_pod().enter(|| {
        for round in 0..ROUNDS {
            // Once with FINs, of which the server's is the first, so that no TIME_WAIT holds the
            // client's port; once with a reset.
            let mut connection = reconnect(target);
            let first = connection.echo(REQUEST).unwrap();
            assert!(first.source_kept(), "round {round}: {first:?}");
            let last = connection.part().unwrap();
            assert_eq!(
                first.backend, last.backend,
                "a connection must stay with its backend"
            );

            let mut connection = reconnect(target);
            connection.echo(REQUEST).unwrap();
            connection.reset().unwrap();
        }
    });
}

/// One client port asks all frontends of a service that has one backend: to the backend, all of
/// these are connections from one address and port.
fn one_frontend_after_the_other(transport: Transport, ask: impl Fn(Target) -> Answer + Sync) {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(transport).backend(world.backend("pod-a"));
    world.add(&service);
    let targets = [
        service.cluster_ip(),
        service.node_port(),
        service.external_ip(),
    ];
    world.client_pod().enter(|| {
        for target in targets.into_iter().cycle().take(10) {
            let answer = ask(target.from_port(CLIENT_PORT));
            assert_eq!(answer.peer.ip(), answer.client.ip(), "{answer:?}");
        }
    });
}

#[test]
fn a_tcp_port_can_ask_one_frontend_after_the_other() {
    one_frontend_after_the_other(Transport::Tcp, |target| {
        let mut connection = reconnect(target);
        let answer = connection.echo(REQUEST).unwrap();
        // A FIN would keep the port in TIME_WAIT for the next round.
        connection.reset().unwrap();
        answer
    });
}

#[test]
fn a_udp_port_can_ask_one_frontend_after_the_other() {
    one_frontend_after_the_other(Transport::Udp, |target| {
        target.ask(REQUEST).unwrap_or_else(|failure| {
            panic!("a reply must come from the frontend that was asked last, {target:?}: {failure}")
        })
    });
}
