//! Services and backends that change.

use std::{collections::BTreeMap, time::Duration};

use shunt_tests::{Connection, Continuous, Target, Transport};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered},
};

/// For what must not be answered: an answer would be there long before.
const SILENCE: Duration = Duration::from_millis(300);

#[test]
fn an_update_changes_who_gets_new_connections() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b, d] = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    for transport in [Transport::Tcp, Transport::Udp] {
        let sets = [vec![a, b], vec![b], vec![b, d], vec![a, b, d], vec![d]];
        for set in sets {
            let service = set
                .iter()
                .copied()
                .fold(Service::new(transport), Service::backend);
            world.update(&service);
            for target in [
                service.cluster_ip(),
                service.node_port(),
                service.external_ip(),
            ] {
                let tally = world.ask_from_pod(target, 100);
                assert_eq!(
                    tally.backends(),
                    set,
                    "the new backends, and only they, must answer"
                );
            }
        }
    }
}

#[test]
fn a_deleted_service_is_no_longer_translated() {
    let Some(mut world) = World::new() else {
        return;
    };
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = Service::new(transport).backend(world.backend("pod-a"));
        let targets = [
            service.cluster_ip(),
            service.node_port(),
            service.external_ip(),
        ];
        world.add(&service);
        for target in targets {
            world.ask_from_pod(target, 5);
        }
        world.apply(&Service::delete());
        for target in targets.map(|target| target.within(SILENCE)) {
            let outcome = world.client_pod().enter(|| target.ask(REQUEST));
            assert!(outcome.is_err(), "{target:?} must be gone, but {outcome:?}");
        }
        world.apply(&Service::delete());
    }
}

#[test]
fn connections_are_answered_throughout_updates() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b, d] = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp).backend(a);
    world.add(&service);
    let traffic = [
        Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST),
        Continuous::start(world.sandbox.outside(), service.node_port(), REQUEST),
    ];
    for round in 0..30 {
        let other = if round % 2 == 0 { b } else { d };
        world.update(
            &Service::new(Transport::Tcp)
                .weighted(a, 1 + round % 3)
                .backend(other),
        );
        for client in &traffic {
            client.wait_for(10, Duration::from_secs(10)).unwrap();
        }
    }
    for client in traffic {
        for sample in client.stop().unwrap() {
            let outcome = &sample.outcome;
            assert!(
                outcome.is_ok(),
                "a frontend is never missing or empty, but {outcome:?}"
            );
        }
    }
}

#[test]
fn established_tcp_connections_survive_changes_of_backends_and_weights() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b, d] = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let service = Service::new(Transport::Tcp)
        .backend(a)
        .backend(b)
        .backend(d);
    world.add(&service);

    let mut open = BTreeMap::new();
    for (from, target) in [
        (world.client_pod(), service.cluster_ip()),
        (world.sandbox.outside(), service.external_ip()),
    ] {
        for backend in [a, b, d] {
            let connection = from.enter(|| connect_to(target, backend));
            open.insert((backend, from.name().to_owned()), connection);
        }
    }
    let changes = [
        (
            "weights",
            Service::new(Transport::Tcp)
                .weighted(a, 7)
                .backend(b)
                .backend(d),
        ),
        (
            "other weights",
            Service::new(Transport::Tcp)
                .weighted(a, 5)
                .weighted(b, 1)
                .weighted(d, 9),
        ),
        (
            "b removed",
            Service::new(Transport::Tcp).backend(a).backend(d),
        ),
        ("only d", Service::new(Transport::Tcp).backend(d)),
        ("all again", service),
    ];
    for (change, service) in changes {
        world.update(&service);
        for ((backend, from), connection) in &mut open {
            let answer = connection.echo(REQUEST).map(|answer| answer.backend);
            assert!(
                answer.as_ref().is_ok_and(|answered| answered == backend),
                "the connection from {from} to {backend} must survive ({change}), but {answer:?}"
            );
        }
    }
}

/// A connection that happens to reach the backend.
fn connect_to(target: Target, backend: std::net::SocketAddr) -> Connection {
    for _ in 0..500 {
        let mut connection = target.connect().unwrap();
        if connection.echo(REQUEST).unwrap().backend == backend {
            return connection;
        }
    }
    panic!("{backend} was never chosen");
}

#[test]
fn udp_flow_leaves_a_removed_backend() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let both = Service::new(Transport::Udp).backend(a).backend(b);
    world.add(&both);
    let flow = world
        .client_pod()
        .enter(|| both.cluster_ip().flow().unwrap());
    let first = flow.ask(REQUEST).unwrap().backend;
    let other = if first == a { b } else { a };
    world.update(&Service::new(Transport::Udp).backend(other));
    let second = flow.ask(REQUEST).unwrap().backend;
    assert_eq!(second, other, "the next packet of a UDP flow picks again");
}

#[test]
fn a_resync_replaces_everything() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [a, b] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    world.add(&Service::new(Transport::Udp).backend(a));
    let tcp = Service::new(Transport::Tcp).backend(b);
    let mut event: serde_json::Value = serde_json::from_str(&crate::world::resync()).unwrap();
    event["services"] = serde_json::json!([tcp.json()]);
    for _ in 0..2 {
        world.apply(&event.to_string());
        let tally = all_answered(world.sandbox.outside(), tcp.external_ip(), 20);
        assert_eq!(
            tally.backends(),
            [b],
            "what is in the snapshot must be translated"
        );
        let gone = Service::new(Transport::Udp).cluster_ip().within(SILENCE);
        let outcome = world.client_pod().enter(|| gone.ask(REQUEST));
        assert!(
            outcome.is_err(),
            "what is not in the snapshot must be gone, but {outcome:?}"
        );
    }
}
