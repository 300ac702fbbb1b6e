//! Endpoints that an operator has drained on this node.

use serde_json::{Value, json};
use shunt_tests::{addresses, agent_binary, run};

use crate::{
    health_checks::{await_answer, balanced},
    objects::{and, node, ready, slice},
    world::{World, tcp},
};

#[test]
fn a_drained_endpoint_counts_as_not_ready_for_topology_and_health_checks() {
    let hinted = |address, zone: &str| -> Value {
        let hints = json!({ "forZones": [{ "name": zone }] });
        and(ready(address), "", "hints", hints)
    };
    let near = hinted(addresses::POD_A, "a");
    let far = hinted(addresses::POD_D, "b");
    let Some(world) = World::with(&[], |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(node("node-2", addresses::NODE2));
        server.put(balanced());
        server.put(slice("web", "4", &[near.clone(), far.clone()]));
    }) else {
        return;
    };
    let (client, target) = (world.pod(), tcp("10.96.0.10", 80));
    let outside = world.sandbox.outside();
    let steer = |arguments: &[&str]| {
        let socket = world.agent.socket().to_str().unwrap();
        let arguments = [arguments, &["--socket", socket]].concat();
        run(agent_binary().to_str().unwrap(), &arguments).unwrap();
    };
    let place = addresses::POD_A.to_string();
    world.await_pods(client, target, &["pod-a"]);
    await_answer(outside, 200, 1);
    for (drain, undrain) in [
        (vec!["drain", &place], vec!["undrain", &place]),
        (
            vec!["weight", "default/web", &place, "0"],
            vec!["weight", "default/web", &place, "--reset"],
        ),
    ] {
        steer(&drain);
        world.await_pods(client, target, &["pod-d"]);
        await_answer(outside, 503, 0);
        // It counts as little in later events.
        let other = hinted(addresses::POD_B, "b");
        world
            .server
            .put(slice("web", "4", &[near.clone(), other, far.clone()]));
        world.await_pods(client, target, &["pod-b", "pod-d"]);
        await_answer(outside, 200, 1);
        steer(&undrain);
        world.await_pods(client, target, &["pod-a"]);
        await_answer(outside, 200, 2);
        world
            .server
            .put(slice("web", "4", &[near.clone(), far.clone()]));
        await_answer(outside, 200, 1);
    }
}
