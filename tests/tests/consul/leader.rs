//! Three servers, of which leaders are lost.

use std::time::Duration;

use serde_json::json;
use shunt_tests::{Consul, ConsulSettings, Continuous, addresses, wait_until};

use crate::world::{Plan, REQUEST, SOON, WEB, World, ground, is_current, registration, web};

/// Time until a lost quorum is shown.
const MISSED: Duration = Duration::from_secs(10);

#[test]
fn a_lost_leader_and_a_lost_quorum_take_nothing() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let node = sandbox.node();
    let settings = |number: u16| ConsulSettings {
        node: format!("n{}", if number == 0 { 1 } else { number + 2 }),
        port: 8500 + number * 1000,
        servers: 3,
        further: json!({ "retry_join": [
            format!("{}:8601", addresses::NODE),
            format!("{}:9601", addresses::NODE),
            format!("{}:10601", addresses::NODE),
        ], "retry_interval": "1s" }),
        ..ConsulSettings::new(addresses::NODE)
    };
    let launch = |number| Consul::launch(&binary, node, settings(number)).unwrap();
    let (first, mut others) = (launch(0), vec![launch(1), launch(2)]);
    first.wait(node).unwrap();
    for other in &others {
        other.wait(node).unwrap();
    }
    let mut plan = Plan::new(WEB);
    plan.flags = ["--consul-settle", "0s"].map(str::to_owned).to_vec();
    let mut world = World::around(sandbox, first, plan, |_, _, _| {});
    world.register(&registration("a", addresses::POD_A, "passing"));
    world.await_pods(&["pod-a"]);
    let traffic = Continuous::start(world.pod(), web(), REQUEST);

    // One of the others goes: if it led, another one is elected.
    others[0].kill().unwrap();
    let told = wait_until("a leader takes a registration", SOON, || {
        let body = registration("b", addresses::POD_B, "passing");
        world
            .consul
            .put(world.sandbox.node(), "/v1/catalog/register", &body)
            .ok()
    });
    told.unwrap();
    world.await_pods(&["pod-a", "pod-b"]);

    // Without a quorum nothing is reported, and nothing is lost.
    others[1].kill().unwrap();
    // A read that was waiting is answered as if nothing were wrong, so that is asked for besides.
    wait_until("the leader is missed", MISSED, || {
        let stale = world.source()["stale"].to_string();
        stale.contains("knows no leader").then_some(())
    })
    .unwrap_or_else(|error| panic!("{error:#}: {:#}", world.source()));
    world.await_pods(&["pod-a", "pod-b"]);
    world = world.restart(|_, _| {});
    world.await_source("the leader is missed", |source| !is_current(source));
    world.await_pods(&["pod-a", "pod-b"]);

    others[0].come_back(world.sandbox.node(), false).unwrap();
    others[1].come_back(world.sandbox.node(), false).unwrap();
    world.await_source("it is up to date", is_current);
    world.deregister("b");
    world.await_pods(&["pod-a"]);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{sample:?}");
    }
}
