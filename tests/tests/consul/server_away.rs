//! A Consul that is away, or is another one than before, takes nothing from any client.

use std::{
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;
use shunt_tests::{Continuous, addresses};

use crate::read_again::many;
use crate::world::{Plan, REQUEST, SOON, WEB, World, is_current, is_stale, registration, web};

/// Removals do not wait when Consul is back.
const AT_ONCE: [&str; 2] = ["--consul-settle", "0s"];

fn with_two(flags: &[&str]) -> Option<World> {
    with_two_of(WEB, flags)
}

fn with_two_of(frontends: &str, flags: &[&str]) -> Option<World> {
    let mut plan = Plan::new(frontends);
    plan.flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
    let world = World::with(plan, |_, _, _| {})?;
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.register(&registration("b", addresses::POD_B, "passing"));
    world.await_pods(&["pod-a", "pod-b"]);
    Some(world)
}

#[test]
fn a_killed_consul_changes_nothing_and_what_changed_is_there_when_it_is_back() {
    let Some(mut world) = with_two(&AT_ONCE) else {
        return;
    };
    let before = world.frontends();
    let traffic = Continuous::start(world.pod(), web(), REQUEST);
    world.consul.kill().unwrap();
    // What else is followed is missed by itself, and maybe before.
    let has_web = |source: &Value| {
        let stale = source["stale"].as_array();
        stale.is_some_and(|stale| stale.iter().any(|one| one["service"] == "web"))
    };
    world.await_source("Consul is missed", has_web);
    assert!(world.status_text().contains("NOT up to date"));
    assert_eq!(world.frontends(), before);
    // An agent that starts now knows nothing, and leaves what is pinned as it is.
    let mut world = world.restart(|_, _| {});
    traffic.wait_for(50, SOON).unwrap();
    assert_eq!(world.shunt("status")["synced"], false);
    world.consul.come_back(world.sandbox.node(), false).unwrap();
    world.consul.wait(world.sandbox.node()).unwrap();
    world.deregister("b");
    world.await_source("it is up to date", is_current);
    world.await_pods(&["pod-a"]);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
}

#[test]
fn a_consul_that_is_built_anew_is_followed_though_it_counts_from_the_beginning() {
    let Some(mut world) = with_two(&AT_ONCE) else {
        return;
    };
    // So that the index is far ahead.
    for number in 0..100 {
        let status = ["passing", "warning"][number % 2];
        world.register(&registration("b", addresses::POD_B, status));
    }
    world.consul.come_back(world.sandbox.node(), true).unwrap();
    world.consul.wait(world.sandbox.node()).unwrap();
    world.register(&registration("a", addresses::POD_D, "passing"));
    let registered = Instant::now();
    world.await_pods(&["pod-d"]);
    world.await_source("it is up to date", is_current);
    // Not only when a blocked query ends.
    let took = registered.elapsed();
    assert!(
        took < shunt_tests::patience(Duration::from_secs(25)),
        "{took:?}"
    );
    world.deregister("a");
    world.await_backends(&[]);
}

#[test]
fn removals_wait_while_consul_settles_and_additions_do_not() {
    removals_wait(WEB);
}

#[test]
fn removals_wait_while_consul_settles_with_hints_too() {
    removals_wait(&format!("{}{WEB}", many()));
}

fn removals_wait(frontends: &str) {
    let Some(mut world) = with_two_of(frontends, &["--consul-settle", "8s"]) else {
        return;
    };
    world.consul.kill().unwrap();
    world.await_source("Consul is missed", is_stale);
    world.consul.come_back(world.sandbox.node(), true).unwrap();
    world.consul.wait(world.sandbox.node()).unwrap();
    world.register(&registration("d", addresses::POD_D, "passing"));
    world.await_backends(&[addresses::POD_A, addresses::POD_B, addresses::POD_D]);
    let since = Instant::now();
    world.await_backends(&[addresses::POD_D]);
    // Its time began when Consul was back.
    assert!(since.elapsed() < shunt_tests::patience(Duration::from_secs(20)));
    thread::sleep(Duration::from_millis(10));
    world.deregister("d");
    world.await_backends(&[]);
}
