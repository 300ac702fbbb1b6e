//! A server that is away changes nothing, and what changed meanwhile is there when it is back.

use shunt_tests::{Continuous, Faults, Kind, addresses};

use crate::{
    objects::{ready, slice},
    world::{REQUEST, SOON, World, kill, tcp},
};

const IP: &str = "10.96.0.10";

#[test]
fn connections_go_on_while_the_server_is_away_and_agents_start_meanwhile() {
    let Some(mut world) = World::with_web(IP) else {
        return;
    };
    world.server.put(slice(
        "web",
        "4",
        &[ready(addresses::POD_A), ready(addresses::POD_D)],
    ));
    let target = tcp(IP, 80);
    world.await_pods(world.pod(), target, &["pod-a", "pod-d"]);
    let before = world.frontends();
    let traffic = Continuous::start(world.pod(), target, REQUEST);

    world.server.go_away();
    let lost = |source: &serde_json::Value| source["connected"] == false;
    let source = world.await_source("the server is missed", lost);
    assert!(source["trouble"].is_string(), "{source:#}");
    assert_eq!(source["services"], 1);
    assert!(world.status_text().contains("NOT up to date"));
    assert_eq!(world.frontends(), before);
    // An agent that starts now knows nothing, and leaves what is pinned as it is.
    let mut world = world.restart(kill, |_, _| {});
    traffic.wait_for(50, SOON).unwrap();
    assert_eq!(world.shunt("status")["synced"], false);

    // Meanwhile the cluster has changed.
    world.server.put(slice(
        "web",
        "4",
        &[ready(addresses::POD_B), ready(addresses::POD_D)],
    ));
    world.server.come_back(world.sandbox.node()).unwrap();
    world.await_pods(world.pod(), target, &["pod-b", "pod-d"]);
    world.await_source("it is up to date", |source| source["connected"] == true);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
}

#[test]
fn an_agent_waits_for_all_first_lists() {
    let Some(mut world) = World::with_web(IP) else {
        return;
    };
    let target = tcp(IP, 80);
    let traffic = Continuous::start(world.pod(), target, REQUEST);
    for kind in [
        Kind::EndpointSlice,
        Kind::Service,
        Kind::Node,
        Kind::ServiceCidr,
    ] {
        world = world.restart(kill, |server, _| {
            server.set_faults(Faults {
                withheld: Some(kind),
                ..Faults::default()
            });
        });
        traffic.wait_for(100, SOON).unwrap();
        let status = world.shunt("status");
        assert_eq!(status["synced"], false, "{kind:?} are not there yet");
        world.server.set_faults(Faults::default());
        world.await_source("all is there", |source| source["synced"] == true);
    }
    world.await_pods(world.pod(), target, &["pod-a"]);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
}
