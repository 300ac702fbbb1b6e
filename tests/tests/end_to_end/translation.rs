//! Every kind of frontend, from inside and outside.

use std::{collections::BTreeMap, time::Duration};

use shunt_tests::{Failure, ForeignSources, Namespace, Target, Transport, addresses};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered, all_answered_outside},
};

/// So many connections miss one of three equal backends in one of 10^17 runs.
const ENOUGH: u32 = 100;

#[test]
fn tcp_reaches_all_backends_at_every_kind_of_frontend() {
    every_kind_of_frontend(Transport::Tcp);
}

#[test]
fn udp_reaches_all_backends_at_every_kind_of_frontend() {
    every_kind_of_frontend(Transport::Udp);
}

fn every_kind_of_frontend(transport: Transport) {
    let Some(mut world) = World::new() else {
        return;
    };
    let backends = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
    let service = backends
        .into_iter()
        .fold(Service::new(transport), Service::backend);
    world.add(&service);

    let pod = world.client_pod();
    let outside = world.sandbox.outside();
    let cases: [(&str, &Namespace, Target); 4] = [
        ("a pod at the ClusterIP", pod, service.cluster_ip()),
        ("a pod at this node's NodePort", pod, service.node_port()),
        (
            "a pod at the other node's NodePort",
            pod,
            service.node_port_at(addresses::NODE2),
        ),
        ("a pod at the ExternalIP", pod, service.external_ip()),
    ];
    for (case, from, target) in cases {
        let tally = all_answered(from, target, ENOUGH);
        assert_eq!(
            tally.backends(),
            backends,
            "{case}: all backends, and only they, must answer"
        );
    }
    for target in [service.node_port(), service.external_ip()] {
        let tally = all_answered_outside(outside, target, ENOUGH);
        assert_eq!(
            tally.backends(),
            backends,
            "outside with {target:?}: all backends, and only they, must answer"
        );
    }
}

#[test]
fn a_flow_stays_with_its_backend() {
    let Some(mut world) = World::new() else {
        return;
    };
    for transport in [Transport::Tcp, Transport::Udp] {
        let backends = ["pod-a", "pod-b", "pod-d"].map(|pod| world.backend(pod));
        let service = backends
            .into_iter()
            .fold(Service::new(transport), Service::backend);
        world.update(&service);
        let target = service.cluster_ip();
        let answers: Vec<_> = world.client_pod().enter(|| match transport {
            Transport::Tcp => {
                let mut connection = target.connect().unwrap();
                (0..ENOUGH)
                    .map(|_| connection.echo(REQUEST).unwrap().backend)
                    .collect()
            }
            Transport::Udp => {
                let flow = target.flow().unwrap();
                (0..ENOUGH)
                    .map(|_| flow.ask(REQUEST).unwrap().backend)
                    .collect()
            }
        });
        assert!(
            answers.iter().all(|backend| *backend == answers[0]),
            "one {transport} flow must have one backend, not {answers:?}"
        );
    }
}

#[test]
fn what_is_no_service_passes_untouched() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    for transport in [Transport::Tcp, Transport::Udp] {
        let direct = Target::new(transport, world.backend("pod-d"));
        let tally = world.ask_from_pod(direct, 10);
        assert_eq!(
            tally.of(world.backend("pod-d")),
            10,
            "a pod's own address must lead to it"
        );
        let tally = all_answered(world.sandbox.outside(), direct, 10);
        assert_eq!(
            tally.of(world.backend("pod-d")),
            10,
            "a pod's own address must lead to it"
        );
    }
    // The same address and port, but UDP.
    let other = Service::new(Transport::Udp)
        .cluster_ip()
        .within(Duration::from_millis(300));
    let outcome = world.client_pod().enter(|| other.ask(REQUEST));
    assert!(
        outcome.is_err(),
        "a TCP service must not take UDP, but {outcome:?}"
    );
}

#[test]
fn a_backend_may_be_a_client_of_its_own() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-b"));
    world.add(&service);
    // Pod-b answers at the service; what it opens itself is no answer of the service.
    let direct = Target::tcp(world.backend("pod-a"));
    let tally = all_answered(world.sandbox.pod("pod-b").namespace(), direct, 20);
    assert_eq!(tally.of(world.backend("pod-a")), 20);
    // And a backend of nothing asks the service.
    let tally = all_answered(
        world.sandbox.pod("pod-a").namespace(),
        service.cluster_ip(),
        20,
    );
    assert_eq!(tally.of(world.backend("pod-b")), 20);
}

#[test]
fn a_pod_reaches_itself_through_its_service() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = World::new() else {
            return;
        };
        let service = Service::new(transport).backend(world.backend("pod-a"));
        world.add(&service);
        let pod = world.sandbox.pod("pod-a").namespace();
        for target in [service.cluster_ip(), service.node_port()] {
            let tally = pod.enter(|| target.ask_times(20, REQUEST));
            assert!(tally.failures.is_empty(), "{tally:#?}");
            assert_eq!(tally.of(world.backend("pod-a")), 20);
            let hairpin = (world.backend("pod-a"), [169, 254, 254, 1].into());
            assert_eq!(
                tally.foreign_sources,
                ForeignSources::from([(hairpin, 20)]),
                "it sees the hairpin address, not its own"
            );
        }
    }
}

#[test]
fn a_service_without_backends_refuses_at_once() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = World::new() else {
            return;
        };
        let service = Service::new(transport);
        world.add(&service);
        for (from, target) in [
            (world.client_pod(), service.cluster_ip()),
            (world.client_pod(), service.node_port()),
            (world.sandbox.outside(), service.external_ip()),
        ] {
            let tally = from.enter(|| target.ask_times(3, REQUEST));
            let refused = Failure::Refused.to_string();
            assert_eq!(
                tally.failures,
                BTreeMap::from([(refused, 3)]),
                "{transport:?} {target:?}"
            );
        }
    }
}
