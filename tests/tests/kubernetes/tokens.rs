//! The token of a service account is another one every hour.

use std::time::Duration;

use shunt_tests::{Continuous, Faults, addresses, by_length, wait_until};

use crate::{
    objects::{ready, slice},
    world::{REQUEST, SOON, World, await_silence, tcp},
};

const IP: &str = "10.96.0.10";

/// Number of times that a token is replaced.
const TOKENS: u32 = 6;
const MANY_TOKENS: u32 = 300;

/// The agent's message on a token that is not taken. The bare number may be a part of any other one.
const REFUSED: &str = "the server says 401";

/// Time that an agent may take to try again that was refused again and again.
const PATIENCE: Duration = Duration::from_secs(20);

fn put_web(world: &World, pod: std::net::IpAddr) {
    world.server.put(slice("web", "4", &[ready(pod)]));
}

#[test]
fn a_token_that_is_not_taken_any_more_changes_nothing_and_the_next_one_is_read() {
    let Some(world) = World::with_web(IP) else {
        return;
    };
    world.server.rotate_token("token-2", false).unwrap();
    world.server.cut();
    let refused = |source: &serde_json::Value| {
        let trouble = source["trouble"].as_str().unwrap_or_default();
        source["connected"] == false && trouble.contains(REFUSED)
    };
    world.await_source("the token is refused", refused);
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-a"]);
    world.server.rotate_token("token-2", true).unwrap();
    put_web(&world, addresses::POD_B);
    wait_until("the new token is read", PATIENCE, || {
        (world.source()["connected"] == true).then_some(())
    })
    .unwrap();
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-b"]);
}

#[test]
fn an_agent_that_waits_with_a_void_token_tries_the_next_one_at_once() {
    let Some(world) = World::with_web(IP) else {
        return;
    };
    world.server.set_faults(Faults {
        status: Some(401),
        // The pause that it would wait out: any other one is shorter.
        retry_after: 60,
        ..Faults::default()
    });
    world.server.cut();
    world.await_source("the token is refused", |source| {
        let trouble = source["trouble"].as_str().unwrap_or_default();
        trouble.contains(REFUSED)
    });
    await_silence(&world.server, 0);
    world.server.set_faults(Faults::default());
    put_web(&world, addresses::POD_B);
    world.server.rotate_token("token-2", true).unwrap();
    world.await_source("the new token is read", |source| {
        source["connected"] == true
    });
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-b"]);
}

#[test]
fn tokens_are_replaced_without_a_gap() {
    let Some(world) = World::with_web(IP) else {
        return;
    };
    let target = tcp(IP, 80);
    let traffic = Continuous::start(world.pod(), target, REQUEST);
    for number in 0..by_length(TOKENS, MANY_TOKENS) {
        // As a kubelet does: the file has the next one before the last one is worth nothing.
        let token = format!("token-{}", number + 2);
        world.server.rotate_token(&token, true).unwrap();
        if number % 2 == 1 {
            // All watches have to begin anew, long before the next look into the file.
            world.server.cut();
        }
        let (pod, name) = [
            (addresses::POD_A, "pod-a"),
            (addresses::POD_B, "pod-b"),
            (addresses::POD_D, "pod-d"),
        ][number as usize % 3];
        put_web(&world, pod);
        world.await_pods(world.pod(), target, &[name]);
        world.await_source("it is up to date", |source| source["connected"] == true);
    }
    traffic.wait_for(50, SOON).unwrap();
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
    let log = world.agent.log();
    assert!(!log.contains(REFUSED), "a token was refused twice:\n{log}");
}
