//! A Service that does not fit into the tables affects no other one.

use serde_json::Value;
use shunt_tests::addresses;

use crate::{
    health_checks::{PROBED, probe},
    objects::{and, node, ready, service, slice, with},
    world::{World, kill, tcp},
};

/// More frontends of IPv4 than the agents of these tests have room for: so many external addresses.
const ADDRESSES: usize = 300;

fn large() -> Value {
    let addresses =
        (0..ADDRESSES).map(|number| format!("192.0.{}.{}", 2 + number / 250, number % 250));
    let addresses: Vec<String> = addresses.collect();
    let mut object = and(
        service("large", "10.96.0.66"),
        "/spec",
        "externalIPs",
        addresses,
    );
    // The oldest claims are served first.
    object["metadata"]["creationTimestamp"] = "2020-01-01T00:00:00Z".into();
    object
}

fn prepare(server: &shunt_tests::ApiServer) {
    server.put(node("node-1", addresses::NODE));
    server.put(node("node-2", addresses::NODE2));
    server.put(service("web", "10.96.0.10"));
    server.put(slice("web", "4", &[ready(addresses::POD_A)]));
}

/// Waits until the Service is shown as left out, and nothing else is.
#[track_caller]
fn await_left_out(world: &World) {
    world.await_source("the large Service is named", |source| {
        let untranslated = source["untranslated"].as_array().unwrap();
        let [only] = untranslated.as_slice() else {
            return false;
        };
        let reasons = only["reasons"].to_string();
        only["service"] == "default/large" && reasons.contains("frontends")
    });
}

#[test]
fn a_service_that_does_not_fit_stops_no_agent() {
    let large = large();
    let started = World::with(&PROBED, |server| {
        prepare(server);
        server.put(large.clone());
    });
    let Some(world) = started else {
        return;
    };
    // The first Resync over empty tables has it.
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-a"]);
    await_left_out(&world);
    // A rollout does not stop for it.
    assert_eq!(probe(&world, "/readyz"), Some(200));
    world.server.put(service("late", "10.96.0.11"));
    world
        .server
        .put(slice("late", "4", &[ready(addresses::POD_B)]));
    world.await_pods(world.pod(), tcp("10.96.0.11", 80), &["pod-b"]);
    // So has the first one over pinned tables, and what has changed meanwhile is in it.
    let world = world.restart(kill, |server, _| {
        server.put(slice("web", "4", &[ready(addresses::POD_B)]));
    });
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-b"]);
    await_left_out(&world);
    // As soon as it fits, it is served.
    let small = with(large, "/spec/externalIPs", vec!["192.0.2.7"]);
    world.server.put(small);
    world
        .server
        .put(slice("large", "4", &[ready(addresses::POD_A)]));
    world.await_pods(world.pod(), tcp("192.0.2.7", 80), &["pod-a"]);
    world.await_source("nothing is left out", |source| {
        source["untranslated"].as_array().is_some_and(Vec::is_empty) && source["pending"] == 0
    });
}
