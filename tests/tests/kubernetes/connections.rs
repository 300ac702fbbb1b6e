//! The agent's connections to the API server.

use std::time::Duration;

use serde_json::Value;
use shunt_tests::{Faults, HTTP1, HTTP2, addresses, wait_until};

use crate::{
    objects::{ready, slice},
    route_objects::{TRAFFIC_SPLITS, definition},
    world::{SOON, World, tcp},
};

const IP: &str = "10.96.0.17";

/// Time in which a server that is gone without a word is noticed and reported.
const NOTICED: Duration = Duration::from_secs(45);

/// Drops all packets to and from the port of the server.
fn hole(port: u16) -> String {
    format!(
        "table inet hole {{\n\
         chain input {{\n\
         type filter hook input priority 0; policy accept;\n\
         tcp dport {port} drop\n\
         tcp sport {port} drop\n\
         }}\n\
         }}\n"
    )
}

fn is_connected(source: &Value) -> bool {
    source["connected"] == true
}

/// The most connections of watches that begin at once: of two that are made at the same time, the later one serves the
/// watch that asked for it, on a slow machine.
const FEW: usize = 2;

/// Waits until all watches go by few connections. Returns their number.
fn await_few(world: &World) -> usize {
    wait_until("all go by few connections", SOON, || {
        let number = world.server.connections();
        (1..=FEW).contains(&number).then_some(number)
    })
    .unwrap()
}

#[test]
fn all_watches_share_a_connection_until_the_server_wants_another() {
    let Some(world) = World::with_web(IP) else {
        return;
    };
    let before = await_few(&world);
    // What goes on stays where it is; what begins, begins elsewhere.
    world.server.send_goaway();
    world.server.put(definition(TRAFFIC_SPLITS, &["v1alpha2"]));
    wait_until("another connection", SOON, || {
        (world.server.connections() == before + 1).then_some(())
    })
    .unwrap();
    world.await_source("nothing is lost", is_connected);
    world.server.cut();
    await_few(&world);
    // All watches renew what proves who they are, together.
    world.server.set_faults(Faults {
        status: Some(401),
        ..Faults::default()
    });
    world.server.cut();
    world.await_source("the token is refused", |source| !is_connected(source));
    world.server.set_faults(Faults::default());
    world.server.rotate_token("token-2", true).unwrap();
    world.await_source("the new token is read", is_connected);
    await_few(&world);
}

#[test]
fn a_server_that_is_gone_without_a_word_is_noticed() {
    vanish(&[HTTP2, HTTP1]);
}

#[test]
fn a_server_that_is_gone_without_a_word_is_noticed_by_http_1_too() {
    vanish(&[HTTP1]);
}

/// A server that takes these protocols, and is gone without a word.
fn vanish(protocols: &'static [&'static [u8]]) {
    let Some(mut world) = World::with_web(IP) else {
        return;
    };
    world.server.go_away();
    world.server.set_protocols(protocols);
    world.server.come_back(world.sandbox.node()).unwrap();
    world.await_source("it is there again", is_connected);
    let node = world.sandbox.node();
    let rules = hole(world.server.address().port());
    node.run_with_input("nft", &["-f", "-"], &rules).unwrap();
    wait_until("it is noticed", NOTICED, || {
        (!is_connected(&world.source())).then_some(())
    })
    .unwrap();
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_B)]));
    node.run_with_input("nft", &["-f", "-"], "delete table inet hole\n")
        .unwrap();
    world.await_source("it is there again", is_connected);
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-b"]);
}
