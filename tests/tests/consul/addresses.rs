//! Addresses that instances name, and those that are claimed.

use std::{fs, net::IpAddr};

use serde_json::{Value, json};
use shunt_tests::{addresses, wait_until};

use crate::world::{Plan, REQUEST, SERVED, SOON, VIP, WEB, World, is_current, registration, web};

#[track_caller]
fn await_frontend(world: &World, address: &str) {
    let found = wait_until("the frontend", SOON, || {
        world.frontends().contains_key(address).then_some(())
    });
    assert!(
        found.is_ok(),
        "{:?}\n{:#}\nlog:\n{}",
        world.frontends(),
        world.source(),
        world.agent.log()
    );
}

/// The frontend of `web` at the address that its instances have a tag for.
const TAGGED: &str = "[[frontend]]\nservice = \"web\"\nvip_from_tag = \"virtual\"\nport = 80\n";

/// The registration of an instance at `ip` that names the address `vip`.
fn tagged(id: &str, ip: IpAddr, vip: &str) -> Value {
    let mut body = registration(id, ip, "passing");
    body["Service"]["TaggedAddresses"] = json!({ "virtual": { "Address": vip, "Port": 0 } });
    body
}

#[test]
fn instances_say_the_address_and_must_agree() {
    let Some(world) = World::with(Plan::new(TAGGED), |_, _, _| {}) else {
        return;
    };
    world.register(&tagged("a", addresses::POD_A, "10.200.0.1"));
    await_frontend(&world, "10.200.0.1:80");
    world.await_pods(&["pod-a"]);
    world.register(&tagged("b", addresses::POD_B, "10.200.0.2"));
    world.await_source("the conflict is shown", |source| {
        source["skipped"]
            .to_string()
            .contains("conflict: instances disagree")
    });
    await_frontend(&world, "10.200.0.1:80");
    world.register(&tagged("b", addresses::POD_B, "10.200.0.1"));
    world.await_source("it is over", |source| source["skipped"] == json!([]));
    world.await_pods(&["pod-a", "pod-b"]);
}

#[test]
fn an_agreed_address_outlives_a_restart_while_instances_disagree_or_are_gone() {
    let Some(world) = World::with(Plan::new(TAGGED), |_, _, _| {}) else {
        return;
    };
    world.register(&tagged("a", addresses::POD_A, "10.200.0.1"));
    await_frontend(&world, "10.200.0.1:80");
    wait_until("the address is kept", SOON, || {
        let text = fs::read_to_string(world.folder.path().join("consul.json")).ok()?;
        text.contains("10.200.0.1").then_some(())
    })
    .unwrap();
    let other = tagged("b", addresses::POD_B, "10.200.0.2");
    let world = world.restart(|consul, sandbox| {
        consul
            .put(sandbox.node(), "/v1/catalog/register", &other)
            .unwrap();
    });
    let has_conflict =
        |source: &Value| is_current(source) && source["skipped"].to_string().contains("conflict");
    world.await_source("the conflict is shown", has_conflict);
    await_frontend(&world, "10.200.0.1:80");
    world.await_pods(&["pod-a", "pod-b"]);
    // The one that has not been heeded goes first.
    for id in ["b", "a"] {
        world.deregister(id);
    }
    world.await_backends(&[]);
    let world = world.restart(|_, _| {});
    world.await_source("all is there", is_current);
    assert!(
        world.frontends().contains_key("10.200.0.1:80"),
        "{:?}",
        world.frontends()
    );
}

const CLAIMED: &str = "[[frontend]]\nservice = \"web\"\nvip_from_range = \"10.200.7.0/28\"\nport = 80\n\n\
                       [[frontend]]\nservice = \"api\"\nvip_from_range = \"10.200.7.0/28\"\nport = 80\n";

#[test]
fn addresses_are_claimed_once_for_all_agents() {
    let Some(world) = World::with(Plan::new(CLAIMED), |_, _, _| {}) else {
        return;
    };
    world.await_source("all is there", is_current);
    let two = wait_until("both frontends", SOON, || {
        let frontends = world.frontends();
        (frontends.len() == 2).then_some(frontends)
    });
    let two = two.unwrap();
    // The next agent finds them there.
    let world = world.restart(|_, _| {});
    world.await_source("all is there", is_current);
    assert_eq!(world.frontends(), two);
    let keys = world
        .consul
        .ask(world.node(), "GET", "/v1/kv/shunt/?keys", "")
        .unwrap();
    let keys: Value = serde_json::from_str(&keys.body).unwrap();
    assert_eq!(keys.as_array().map(Vec::len), Some(4), "{keys}");
}

#[test]
fn without_the_right_to_claim_nothing_is_guessed() {
    const RULES: &str = "service_prefix \"\" { policy = \"read\" } node_prefix \"\" { policy = \"read\" } \
                         agent_prefix \"\" { policy = \"read\" } key_prefix \"\" { policy = \"read\" }";
    let mut plan = Plan::new(CLAIMED);
    plan.consul.acl = true;
    let world = World::with(plan, |sandbox, consul, plan| {
        let token = consul.token(sandbox.node(), "shunt", RULES).unwrap();
        plan.environment = vec![("CONSUL_HTTP_TOKEN".to_owned(), token)];
    });
    let Some(world) = world else {
        return;
    };
    world.await_source("all else is there", is_current);
    world.await_source("it is shown", |source| {
        source["skipped"]
            .to_string()
            .contains("may not claim an address")
    });
    assert_eq!(world.frontends().len(), 0);
}

#[test]
fn a_service_at_another_machines_address_is_reached_by_snat_and_not_preferred() {
    let preferring = WEB.replace("port = 80", "port = 80\nprefer_local = true");
    let Some(world) = World::with(Plan::new(&preferring), |_, _, _| {}) else {
        return;
    };
    // The other machine knows no way to the client outside, and one to the pods here.
    let node2 = world.sandbox.node2();
    let (pods, node) = (addresses::POD_CIDR, addresses::NODE);
    let routes = format!("route del default\nroute add {pods} via {node}\n");
    node2.configure(&routes).unwrap();
    let outside = world.sandbox.outside();
    let route = format!("route replace {VIP} via 198.51.100.1\n");
    outside.configure(&route).unwrap();
    // Both are registered here.
    let here = |id: &str, address| {
        let body = json!({ "Name": "web", "ID": id, "Address": address, "Port": SERVED });
        world.put("/v1/agent/service/register", &body);
    };
    here("d", addresses::POD_D);
    world.await_pods(&["pod-d"]);
    let answer = outside.enter(|| web().ask(REQUEST)).unwrap();
    assert_eq!(answer.peer.ip(), addresses::NODE);
    here("a", addresses::POD_A);
    world.await_pods(&["pod-a"]);
    let answer = outside.enter(|| web().ask(REQUEST)).unwrap();
    assert_eq!(answer.peer.ip(), addresses::OUTSIDE);
}
