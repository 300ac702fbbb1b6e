//! Interfaces that come and go.

use std::{net::IpAddr, time::Duration};

use serde_json::json;
use shunt_tests::{Continuous, Namespace, Target, Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, all_answered},
};

const POD_E: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 1, 1, 6));

/// How long the agent may take to see an interface.
const SOON: Duration = Duration::from_secs(5);

/// For one connection that may come too early.
const SHORT: Duration = Duration::from_millis(100);

fn frontend_interfaces(names: &[&str]) -> String {
    json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": names }).to_string()
}

/// Waits for the first connection that is answered; from then on all must be.
fn soon_translated(from: &Namespace, target: Target) {
    wait_until("a new interface is attached", SOON, || {
        from.enter(|| target.within(SHORT).ask(REQUEST)).ok()
    })
    .unwrap();
    all_answered(from, target, 50);
}

#[test]
fn an_interface_that_appears_later_is_attached() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let traffic = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);

    world.apply(&frontend_interfaces(&[
        "eth0", "eth1", "pod-a", "pod-b", "pod-c", "pod-e",
    ]));
    for _ in 0..3 {
        world.sandbox.add_pod("pod-e", POD_E).unwrap();
        soon_translated(world.sandbox.pod("pod-e").namespace(), service.cluster_ip());
        world.sandbox.remove_pod("pod-e").unwrap();
    }
    for sample in traffic.stop().unwrap() {
        let outcome = &sample.outcome;
        assert!(
            outcome.is_ok(),
            "other interfaces must not be disturbed, but {outcome:?}"
        );
    }
}

#[test]
fn an_interface_that_is_no_longer_named_is_detached() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 5);

    world.apply(&frontend_interfaces(&["eth0", "eth1", "pod-a", "pod-b"]));
    let outcome = world
        .client_pod()
        .enter(|| service.cluster_ip().within(SHORT).ask(REQUEST));
    assert!(
        outcome.is_err(),
        "pod-c is no frontend interface any more, but {outcome:?}"
    );
    all_answered(world.sandbox.outside(), service.external_ip(), 20);

    world.apply(&frontend_interfaces(&[
        "eth0", "eth1", "pod-a", "pod-b", "pod-c",
    ]));
    world.ask_from_pod(service.cluster_ip(), 20);
}
