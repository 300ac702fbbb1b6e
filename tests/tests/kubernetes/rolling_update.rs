//! Pods are replaced one after the other while clients go on.

use std::{net::IpAddr, thread, time::Duration};

use serde_json::Value;
use shunt_tests::{Continuous, addresses, by_length};

use crate::{
    objects::{and, ready, service, slice, terminating, with},
    world::{REQUEST, SOON, World, tcp},
};

const PODS: [IpAddr; 3] = [addresses::POD_A, addresses::POD_B, addresses::POD_D];

/// Time for which a pod goes on after the request to end, as with a hook before its stop.
const GRACE: Duration = Duration::from_millis(30);

#[test]
fn a_rolling_update_fails_no_new_connection() {
    let Some(world) = World::new() else {
        return;
    };
    let ports = serde_json::json!([{ "name": "http", "port": 80, "nodePort": 30080 }]);
    let web = with(service("web", "10.96.0.10"), "/spec/ports", ports);
    let web = with(web, "/spec/type", "NodePort");
    world.server.put(and(
        web,
        "/spec",
        "externalIPs",
        serde_json::json!(["203.0.113.7"]),
    ));
    let put = |endpoints: &[Value]| world.server.put(slice("web", "4", endpoints));
    put(&[ready(PODS[0])]);
    let (client, outside) = (world.pod(), world.sandbox.outside());
    let node_port = tcp(&addresses::NODE.to_string(), 30080);
    let targets = [
        (client, tcp("10.96.0.10", 80)),
        (outside, node_port),
        (outside, tcp("203.0.113.7", 80)),
    ];
    for (from, target) in targets {
        world.await_pods(from, target, &["pod-a"]);
    }
    let traffic: Vec<_> = targets
        .into_iter()
        .map(|(from, target)| Continuous::start(from, target, REQUEST))
        .collect();
    for round in 0..by_length(20, 300) {
        let [old, new] = [PODS[round % 3], PODS[(round + 1) % 3]];
        // The new pod is there, the old one on its way out, and then gone; from time to time the old
        // one leaves before the new one is ready.
        if round % 4 == 3 {
            put(&[terminating(old)]);
            thread::sleep(GRACE);
            put(&[terminating(old), ready(new)]);
        } else {
            put(&[ready(old), ready(new)]);
            thread::sleep(GRACE);
            put(&[terminating(old), ready(new)]);
        }
        thread::sleep(GRACE);
        put(&[ready(new)]);
        thread::sleep(GRACE);
    }
    let mut count = 0;
    for traffic in traffic {
        traffic.wait_for(1, SOON).unwrap();
        for sample in traffic.stop().unwrap() {
            assert!(sample.outcome.is_ok(), "{sample:?}\n{}", world.agent.log());
            count += 1;
        }
    }
    println!("{count} connections, none failed");
}
