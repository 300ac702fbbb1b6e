//! Namespaces share a full table: one below its equal part finds room, and the youngest Services of the one that
//! holds most give way.

use serde_json::Value;
use shunt_tests::addresses;

use crate::{
    objects::{and, node, ready, service, slice, with},
    world::{REQUEST, World, kill, tcp},
};

/// External addresses of each Service of the large namespace: four of these fill the agents' 256 frontends.
const ADDRESSES: u8 = 60;

/// External addresses of the Service that comes later, in a namespace of its own.
const FEWER: u8 = 30;

/// A Service and its slice, made on this day, with external addresses that no other number has.
fn with_addresses(namespace: &str, number: u8, day: u8, count: u8) -> [Value; 2] {
    let name = format!("web-{number}");
    let externals = (1..=count).map(|last| format!("198.51.{number}.{last}"));
    let externals: Vec<String> = externals.collect();
    let ip = format!("10.96.1.{number}");
    let made = format!("2026-01-{day:02}T00:00:00Z");
    let service = and(service(&name, &ip), "/spec", "externalIPs", externals);
    let service = with(service, "/metadata/creationTimestamp", made);
    let slice = slice(&name, "4", &[ready(addresses::POD_A)]);
    [service, slice].map(|object| with(object, "/metadata/namespace", namespace))
}

/// Waits until these Services and no others are shown as left out.
#[track_caller]
fn await_left_out(world: &World, expected: &[&str]) {
    world.await_source("Services are left out for want of room", |source| {
        let untranslated = source["untranslated"].as_array().unwrap().iter();
        let names: Vec<&str> = untranslated
            .map(|one| one["service"].as_str().unwrap())
            .collect();
        names == expected
    });
}

#[test]
fn the_youngest_services_of_the_largest_namespace_give_way_and_keep_their_connections() {
    let started = World::with(&[], |server| {
        server.put(node("node-1", addresses::NODE));
        for number in 1..=4 {
            // The last one of them is the oldest but one.
            let day = [1, 3, 4, 2][usize::from(number) - 1];
            for object in with_addresses("large", number, day, ADDRESSES) {
                server.put(object);
            }
        }
    });
    let Some(world) = started else {
        return;
    };
    for number in 1..=4 {
        let ip = format!("10.96.1.{number}");
        world.await_pods(world.pod(), tcp(&ip, 80), &["pod-a"]);
    }
    await_left_out(&world, &[]);
    let youngest = tcp("198.51.3.7", 80);
    let mut open = world.pod().enter(|| youngest.connect().unwrap());
    open.echo(REQUEST).unwrap();

    let late = with_addresses("small", 5, 20, FEWER);
    for object in late.clone() {
        world.server.put(object);
    }
    world.await_pods(world.pod(), tcp("198.51.5.7", 80), &["pod-a"]);
    await_left_out(&world, &["large/web-3"]);
    for ip in ["198.51.1.7", "198.51.2.7", "198.51.4.7"] {
        world.await_pods(world.pod(), tcp(ip, 80), &["pod-a"]);
    }
    open.echo(REQUEST).unwrap();

    // The next agent leaves out the same Service.
    let world = world.restart(kill, |_, _| {});
    world.await_pods(world.pod(), tcp("198.51.5.7", 80), &["pod-a"]);
    await_left_out(&world, &["large/web-3"]);
    open.echo(REQUEST).unwrap();

    // There is room again.
    for object in &late {
        world.server.delete(object);
    }
    await_left_out(&world, &[]);
    world.await_pods(world.pod(), tcp("198.51.3.7", 80), &["pod-a"]);
    open.echo(REQUEST).unwrap();
}
