//! Objects that the API server takes and the agent cannot read: each affects no other one.

use serde_json::{Value, json};
use shunt_tests::addresses;

use crate::{
    objects::{node, ready, service, service_cidr, slice, with},
    route_objects::{SERVICE_PROFILES, TRAFFIC_SPLITS, definition, service_profile, traffic_split},
    world::{World, is_refused, kill, tcp},
};

/// Deeper than a reader of JSON goes (serde_json: 128).
const DEEP: usize = 1000;

fn nested() -> Value {
    (0..DEEP).fold(json!(1), |inner, _| json!([inner]))
}

/// One of each kind that is not readable.
fn unreadable_objects() -> [Value; 6] {
    [
        with(service("odd", "10.96.0.66"), "/spec/ports", "http"),
        with(slice("odd", "4", &[]), "/endpoints", 7),
        with(node("odd", addresses::NODE2), "/status", "up"),
        with(traffic_split(&[("v1", 1)]), "/spec/service", json!([])),
        with(service_cidr("odd", &[]), "/spec/cidrs", 7),
        with(service_profile("v1"), "/spec/routes", nested()),
    ]
}

/// Waits until exactly these objects are shown as unreadable: the beginnings of their lines.
#[track_caller]
fn await_shown(world: &World, expected: &[&str]) {
    let is_shown = |source: &Value| {
        let shown = source["first_unreadable"].as_array().unwrap();
        let names = shown.iter().map(|one| one["object"].as_str().unwrap());
        names.eq(expected.iter().copied()) && source["unreadable"] == expected.len()
    };
    world.await_source("the unreadable objects", is_shown);
}

/// Makes another service, and waits until it is served.
#[track_caller]
fn others_are_served(world: &World, name: &str, ip: &str) {
    world.server.put(service(name, ip));
    world
        .server
        .put(slice(name, "4", &[ready(addresses::POD_B)]));
    world.await_pods(world.pod(), tcp(ip, 80), &["pod-b"]);
}

#[test]
fn an_unreadable_object_of_each_kind_hides_no_other() {
    let Some(world) = World::with_web("10.96.0.10") else {
        return;
    };
    for kind in [TRAFFIC_SPLITS, SERVICE_PROFILES] {
        world.server.put(definition(kind, &["v1alpha2"]));
    }
    others_are_served(&world, "first", "10.96.0.11");
    let odd = unreadable_objects();
    for object in &odd {
        world.server.put(object.clone());
    }
    let shown = [
        "Services: default/odd",
        "EndpointSlices: default/odd-4",
        "ServiceCIDRs: odd",
        "TrafficSplits: default/web",
        "ServiceProfiles: default/web.default.svc.cluster.local",
    ];
    await_shown(&world, &shown);
    let text = world.status_text();
    let field = "spec.ports: invalid type: string \"http\", expected a sequence";
    assert!(text.contains(field), "{text}");
    others_are_served(&world, "second", "10.96.0.12");
    // A new list has all of them at once.
    let world = world.restart(kill, |_, _| ());
    await_shown(&world, &shown);
    others_are_served(&world, "third", "10.96.0.13");
    world.await_pods(world.pod(), tcp("10.96.0.10", 80), &["pod-a"]);
    let (nested, others) = odd.split_last().unwrap();
    for object in others {
        world.server.delete(object);
    }
    // The server itself cannot read what it would have to send at its end.
    world
        .server
        .put(with(nested.clone(), "/spec/routes", json!([])));
    await_shown(&world, &[]);
}

#[test]
fn what_was_readable_of_an_object_stays_until_it_is_again_or_is_deleted() {
    let Some(world) = World::with_web("10.96.0.10") else {
        return;
    };
    let web = tcp("10.96.0.10", 80);
    let bad = with(
        slice("web", "4", &[ready(addresses::POD_B)]),
        "/endpoints/0/nodeName",
        7,
    );
    world.server.put(bad.clone());
    await_shown(&world, &["EndpointSlices: default/web-4"]);
    world.await_pods(world.pod(), web, &["pod-a"]);
    // A list has no more than the watch has sent.
    world.server.compact();
    others_are_served(&world, "other", "10.96.0.11");
    world.await_pods(world.pod(), web, &["pod-a"]);
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_B)]));
    world.await_pods(world.pod(), web, &["pod-b"]);
    await_shown(&world, &[]);
    world.server.put(bad.clone());
    await_shown(&world, &["EndpointSlices: default/web-4"]);
    world.server.delete(&bad);
    world.await_failure(world.pod(), web, is_refused);
    await_shown(&world, &[]);
}

#[test]
fn a_bad_port_and_a_bad_backend_are_left_out_alone() {
    let Some(world) = World::with_web("10.96.0.10") else {
        return;
    };
    let web = tcp("10.96.0.10", 80);
    let half = slice("web", "5", &[ready(addresses::POD_B)]);
    let ports = json!([{ "name": "dns", "port": -1 }, half["ports"][0]]);
    world.server.put(with(half, "/ports", ports));
    world.await_pods(world.pod(), web, &["pod-a", "pod-b"]);
    world.server.put(definition(TRAFFIC_SPLITS, &["v1alpha2"]));
    others_are_served(&world, "v1", "10.96.0.11");
    let split = traffic_split(&[("v1", 1), ("web", 1)]);
    let split = with(split, "/spec/backends/1/weight", "500m");
    world.server.put(split);
    world.await_pods(world.pod(), web, &["pod-b"]);
    let expected = [
        "EndpointSlice `web-5`: ports[0]: invalid value: integer `-1`, expected u16: it is left out",
        "TrafficSplit `web`: spec.backends[1]: invalid type: string \"500m\", expected i64: it gets nothing, and its \
         share goes to the others",
    ];
    world.await_source("both are named", |source| {
        let untranslated = &source["untranslated"][0];
        let reasons = untranslated["reasons"].as_array();
        untranslated["service"] == "default/web"
            && expected.iter().all(|expected| {
                reasons.is_some_and(|reasons| reasons.iter().any(|reason| reason == expected))
            })
    });
}
