//! Another datacenter serves while the own one has no instance: two real Consuls, joined, and an agent in each.

use std::{
    fs,
    time::{Duration, Instant},
};

use serde_json::json;
use shunt_tests::{Agent, Continuous, PinDir, addresses, agent_binary, patience};
use tempfile::TempDir;

use crate::{
    joined::two_datacenters,
    world::{Plan, REQUEST, SERVED, SOON, WEB, World, ground, registration, web},
};

/// Time for which no client may be sent to an instance that is gone.
const GONE: Duration = Duration::from_secs(1);

/// The gateway's port on the second node.
const GATE: u16 = 21_500;

/// The agent on the second node, with a gateway for `web`, its pins and its folder.
fn gateway_host(world: &World) -> (Agent, PinDir, TempDir) {
    let (pins, folder) = (PinDir::new(), tempfile::tempdir().unwrap());
    let file = folder.path().join("frontends.toml");
    let text = format!(
        "[[frontend]]\nservice = \"web\"\nvip = \"{}\"\nport = {GATE}\nexport = true\n",
        addresses::NODE2
    );
    fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();
    let flags = [
        ["--consul-config", file],
        ["--pod-cidr", "10.1.2.0/24"],
        ["--interface", "eth0"],
        ["--max-frontends", "1024"],
        ["--max-slots", "8192"],
        ["--max-backends", "4096"],
        ["--max-conntrack", "65536"],
    ];
    let node2 = world.sandbox.node2();
    let agent = Agent::follow_consul(&agent_binary(), node2, &pins, &[], flags.as_flattened());
    (agent.unwrap(), pins, folder)
}

#[test]
fn another_datacenter_serves_through_a_gateway_while_the_own_one_has_nobody() {
    let Some((sandbox, binary)) = ground() else {
        return;
    };
    let (near, far) = two_datacenters(&sandbox, &binary);
    let body = json!({
        "Name": "web", "ID": "d", "Address": addresses::POD_D.to_string(), "Port": SERVED,
    });
    let register = "/v1/agent/service/register";
    far.put(sandbox.node2(), register, &body).unwrap();
    let plan = Plan::new(&format!("{WEB}failover = [\"dc2\"]\nvia = \"gateway\"\n"));
    let world = World::with_a(sandbox, near, plan);
    world.await_pods(&["pod-a"]);
    let (_gateway, _pins, _folder) = gateway_host(&world);
    let known = world.await_source("the gateway is known", |source| {
        source["gateways"]
            .as_array()
            .is_some_and(|all| all.len() == 1)
    });
    assert_eq!(known["gateways"][0]["datacenter"], "dc2", "{known:#}");
    assert_eq!(known["failed_over"], json!([]));

    let traffic = Continuous::start(world.pod(), web(), REQUEST);
    let mut away = Vec::new();
    for _ in 0..2 {
        world.deregister("a");
        let since = Instant::now();
        world.await_pods(&["pod-d"]);
        world.await_source("dc2 is seen to serve", |source| {
            source["failed_over"] == json!([{ "service": "consul/web", "datacenter": "dc2" }])
        });
        traffic.wait_for(20, SOON).unwrap();
        away.push(since + patience(GONE)..Instant::now());
        world.register(&registration("a", addresses::POD_A, "passing"));
        world.await_pods(&["pod-a"]);
        world.await_source("dc1 serves", |source| source["failed_over"] == json!([]));
    }
    // The gateway itself is well, and has no instance behind it.
    let deregister = "/v1/agent/service/deregister/d";
    far.put(world.sandbox.node2(), deregister, &json!({}))
        .unwrap();
    for sample in traffic.stop().unwrap() {
        let answer = sample.outcome.as_ref();
        let answer = answer.unwrap_or_else(|failure| panic!("{failure:?}"));
        assert!(
            answer.name != "pod-a" || !away.iter().any(|away| away.contains(&sample.started)),
            "sent to who was gone: {sample:?}"
        );
    }
    world.deregister("a");
    world.await_backends(&[]);
}
