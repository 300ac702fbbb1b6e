//! Nodes, their addresses and NodePorts.

use serde_json::{Value, json};
use shunt_tests::{addresses, wait_until};

use crate::{
    objects::{node, ready, service, slice, with},
    world::{Frontends, SOON, World, tcp},
};

/// The address of the node towards the outside, which is not its primary one.
const SECOND: &str = "198.51.100.1";

fn node_port_service() -> Value {
    let ports = json!([{ "name": "http", "port": 80, "nodePort": 30080 }]);
    let web = with(service("web", "10.96.0.10"), "/spec/ports", ports);
    with(web, "/spec/type", "NodePort")
}

/// The addresses that carry NodePorts.
fn carrying(world: &World) -> Vec<String> {
    let frontends: Frontends = world.frontends();
    let keys = frontends.into_keys().filter(|key| key.contains(":30080/"));
    let mut found: Vec<_> = keys.map(|key| key.replace(":30080/TCP", "")).collect();
    found.sort();
    found
}

#[track_caller]
fn await_carrying(world: &World, expected: &[&str]) {
    let found = wait_until("the right addresses carry NodePorts", SOON, || {
        (carrying(world) == expected).then_some(())
    });
    found.unwrap_or_else(|error| {
        panic!(
            "{error}: {:?}, not {expected:?}\n{}",
            carrying(world),
            world.agent.log()
        )
    });
}

#[test]
fn node_ports_stand_on_the_primary_addresses_and_follow_the_node() {
    let Some(world) = World::new() else {
        return;
    };
    world.server.put(node_port_service());
    world
        .server
        .put(slice("web", "4", &[ready(addresses::POD_A)]));
    await_carrying(&world, &["192.168.16.10", "[fd00:192:168:16::10]"]);
    let node_port = |ip: &str| tcp(ip, 30080);
    world.await_pods(
        world.sandbox.outside(),
        node_port("192.168.16.10"),
        &["pod-a"],
    );
    // The Node has another address now.
    world.server.put(node("node-1", SECOND.parse().unwrap()));
    await_carrying(&world, &[SECOND, "[fd00:198:51:100::1]"]);
    world.await_pods(world.sandbox.outside(), node_port(SECOND), &["pod-a"]);
    // The interface loses it, and has it again.
    let interface = world.sandbox.node();
    interface
        .configure(&format!("address del {SECOND}/24 dev eth0\n"))
        .unwrap();
    await_carrying(&world, &["[fd00:198:51:100::1]"]);
    interface
        .configure(&format!("address add {SECOND}/24 dev eth0\n"))
        .unwrap();
    await_carrying(&world, &[SECOND, "[fd00:198:51:100::1]"]);
}

#[test]
fn node_ports_stand_within_the_ranges_that_are_given() {
    let flags = ["--nodeport-addresses", "198.51.100.0/24,fd00:198::/32"];
    let Some(world) = World::with(&flags, |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(node_port_service());
    }) else {
        return;
    };
    await_carrying(&world, &[SECOND, "[fd00:198:51:100::1]"]);
    assert!(
        world.server.requests().iter().all(|uri| {
            !uri.starts_with("/api/v1/nodes")
                || uri.contains("fieldSelector=metadata.name%3Dnode-1")
        }),
        "only this node's Node is asked for"
    );
}

/// A ClusterIP on another device than kube-proxy's, as NodeLocal DNSCache or a tunnel may have it.
const OWN_CLUSTER_IP: &str = "10.96.0.11";

#[test]
fn cluster_ips_on_devices_of_the_node_carry_no_node_ports() {
    let flags = ["--nodeport-addresses", "0.0.0.0/0"];
    let Some(world) = World::with(&flags, |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(node_port_service());
        server.put(service("dns", OWN_CLUSTER_IP));
    }) else {
        return;
    };
    let usual = wait_until("the node's addresses carry NodePorts", SOON, || {
        let found = carrying(&world);
        found.contains(&SECOND.to_owned()).then_some(found)
    })
    .unwrap();
    // A bridge, which every kernel has, with the name of kube-proxy's device and a ClusterIP of each service.
    let addresses = (0..4).flat_map(|high| (0..250).map(move |low| format!("10.100.{high}.{low}")));
    let addresses = addresses.map(|ip| format!("address add {ip}/32 dev kube-ipvs0\n"));
    let commands: String = addresses.collect();
    world
        .sandbox
        .node()
        .configure(&format!(
            "link add kube-ipvs0 type bridge\n{commands}\
             address add {OWN_CLUSTER_IP}/32 dev eth0\n\
             address add 192.168.16.77/24 dev eth0\n"
        ))
        .unwrap();
    let mut expected = usual.clone();
    expected.push("192.168.16.77".to_owned());
    expected.sort();
    let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
    await_carrying(&world, &expected);
}

#[test]
fn node_ports_of_other_nodes_are_translated_for_clients_of_this_one_if_asked_for() {
    let Some(world) = World::with(&["--remote-node-ports"], |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(node("node-2", addresses::NODE2));
        server.put(node_port_service());
        server.put(slice("web", "4", &[ready(addresses::POD_A)]));
    }) else {
        return;
    };
    let there = tcp(&addresses::NODE2.to_string(), 30080);
    world.await_pods(world.pod(), there, &["pod-a"]);
    world.server.delete(&node("node-2", addresses::NODE2));
    await_carrying(&world, &["192.168.16.10", "[fd00:192:168:16::10]"]);
}

#[test]
fn a_node_that_is_not_there_is_said_at_once() {
    let Some(world) = World::with(&[], |server| {
        server.put(node("another", addresses::NODE));
    }) else {
        return;
    };
    let missing = |source: &Value| source["synced"] == true && source["node"]["found"] == false;
    world.await_source("the node is missed", missing);
    let log = world.agent.log();
    assert!(log.contains("ERROR"), "{log}");
    assert!(log.contains("the cluster has no Node `node-1`"), "{log}");
    assert!(world.status_text().contains("NOT a node of the cluster"));
    world.server.put(node("node-1", addresses::NODE));
    world.await_source("the node is there", |source| {
        source["node"]["found"] == true
    });
}

#[test]
fn hints_for_the_nodes_zone_are_followed_when_it_moves() {
    let Some(world) = World::new() else {
        return;
    };
    let hinted = |address, zone: &str| {
        let mut endpoint = ready(address);
        endpoint["hints"] = json!({ "forZones": [{ "name": zone }] });
        endpoint
    };
    world.server.put(service("web", "10.96.0.10"));
    let both = [hinted(addresses::POD_A, "b"), hinted(addresses::POD_D, "a")];
    world.server.put(slice("web", "4", &both));
    let target = tcp("10.96.0.10", 80);
    world.await_pods(world.pod(), target, &["pod-d"]);
    let moved = node("node-1", addresses::NODE);
    let zone = "/metadata/labels/topology.kubernetes.io~1zone";
    world.server.put(with(moved.clone(), zone, "b"));
    world.await_pods(world.pod(), target, &["pod-a"]);
    world.server.put(with(moved, zone, "c"));
    world.await_pods(world.pod(), target, &["pod-a", "pod-d"]);
}
