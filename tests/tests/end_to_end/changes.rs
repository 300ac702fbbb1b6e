//! Services and backends that change.

use std::{collections::BTreeMap, net::SocketAddr, time::Duration};

use serde_json::Value;
use shunt_tests::{Connection, Continuous, Target, Transport};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered},
};

/// Time to wait for an answer that must not come: an answer would be there long before.
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
fn connect_to(target: Target, backend: SocketAddr) -> Connection {
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
    let mut event: Value = serde_json::from_str(&crate::world::resync()).unwrap();
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

/// The service with these states of its backends: pod, state, whether it is serving.
fn with_states(service: &Service, states: &[(SocketAddr, &str, bool)]) -> String {
    let mut event: Value = serde_json::from_str(&service.event("UpdateService")).unwrap();
    let list = event["service"]["backends"]["main"].as_array_mut().unwrap();
    for backend in list {
        let is_of = |at: &SocketAddr| backend["ip"] == at.ip().to_string();
        let (_, state, serving) = states.iter().find(|(at, ..)| is_of(at)).unwrap();
        backend["state"] = (*state).into();
        backend["serving"] = (*serving).into();
    }
    event.to_string()
}

#[test]
fn a_terminating_backend_that_serves_is_used_when_nothing_ready_is_left() {
    for is_v6 in [false, true] {
        let Some(mut world) = World::new() else {
            return;
        };
        let [a, b] = ["pod-a", "pod-b"].map(|pod| {
            if is_v6 {
                world.backend_v6(pod)
            } else {
                world.backend(pod)
            }
        });
        let service = Service::new(Transport::Tcp).dual_stack();
        let target = if is_v6 {
            service.cluster_ip_v6()
        } else {
            service.cluster_ip()
        };
        let service = service.backend(a).backend(b);
        world.apply(&with_states(
            &service,
            &[(a, "Ready", true), (b, "NotReady", false)],
        ));
        let mut open = world.client_pod().enter(|| target.connect().unwrap());
        assert_eq!(open.echo(REQUEST).unwrap().backend, a);

        // On its way out, with another that is ready; then alone; then no longer serving.
        world.apply(&with_states(
            &service,
            &[(a, "Terminating", true), (b, "Ready", true)],
        ));
        assert_eq!(world.ask_from_pod(target, 20).of(b), 20);
        assert_eq!(
            open.echo(REQUEST).unwrap().backend,
            a,
            "it keeps its connections"
        );
        world.apply(&with_states(
            &service,
            &[(a, "Terminating", true), (b, "NotReady", false)],
        ));
        assert_eq!(world.ask_from_pod(target, 20).of(a), 20);
        let mut late = world.client_pod().enter(|| target.connect().unwrap());
        world.apply(&with_states(
            &service,
            &[(a, "Terminating", false), (b, "NotReady", false)],
        ));
        let refused = world.client_pod().enter(|| target.ask(REQUEST));
        assert!(refused.is_err(), "nothing serves any more, but {refused:?}");
        for connection in [&mut open, &mut late] {
            assert_eq!(
                connection.echo(REQUEST).unwrap().backend,
                a,
                "it keeps its connections"
            );
        }
    }
}
