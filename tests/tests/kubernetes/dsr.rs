//! Services whose annotations set how packets get to backends elsewhere, and the Nodes that the agent has to
//! know for that.

use serde_json::{Value, json};
use shunt_tests::{ApiServer, Faults, Kind, addresses, wait_until};

use crate::{
    objects::{and, node, ready, service, slice, with},
    world::{SILENCE, SOON, World, tcp},
};

const NODE_PORT: u16 = 30080;

/// The Service `web` with a NodePort and these annotations.
fn web(annotations: &Value) -> Value {
    let ports = json!([{ "name": "http", "port": 80, "nodePort": NODE_PORT }]);
    let web = with(service("web", "10.96.0.10"), "/spec/ports", ports);
    let web = with(web, "/spec/type", "NodePort");
    and(web, "/metadata", "annotations", annotations.clone())
}

/// Returns the annotations for mode dsr.
fn in_envelopes() -> Value {
    json!({ "service.shunt.io/forwarding": "dsr", "service.shunt.io/selection": "maglev" })
}

/// Two nodes, the second one with the only backend of `web`.
fn prepare(server: &ApiServer, web: Value) {
    server.put(node("node-1", addresses::NODE));
    server.put(node("node-2", addresses::NODE2));
    server.put(slice("web", "4", &[ready(addresses::POD_D)]));
    server.put(web);
}

/// The requests so far that are for all Nodes.
fn for_all_nodes(world: &World) -> Vec<String> {
    let mut requests = world.server.requests();
    requests.retain(|uri| uri.starts_with("/api/v1/nodes?") && !uri.contains("fieldSelector"));
    requests
}

fn wrapped(world: &World) -> u64 {
    world.shunt("status")["counters"]["wrapped"]
        .as_u64()
        .unwrap()
}

/// Waits until a client outside has its packets go on in envelopes. No node is there to take them out.
#[track_caller]
fn await_envelopes(world: &World) {
    let target = tcp(&addresses::NODE.to_string(), NODE_PORT).within(SILENCE);
    let before = wrapped(world);
    let found = wait_until("packets go on in envelopes", SOON, || {
        let outcome = world.sandbox.outside().enter(|| target.ask(1));
        (outcome.is_err() && wrapped(world) > before).then_some(())
    });
    found.unwrap_or_else(|error| panic!("{error}\n{}", world.agent.log()));
}

/// Returns the forwarding and the selection that are shown for the NodePort's frontends.
fn shown(world: &World) -> Vec<[Value; 2]> {
    let services = world.shunt("services");
    let frontends = services.as_array().unwrap().iter();
    let node_ports = frontends.filter(|frontend| frontend["port"] == NODE_PORT);
    node_ports
        .map(|frontend| ["forwarding", "selection"].map(|field| frontend[field].clone()))
        .collect()
}

#[test]
fn all_nodes_are_watched_from_the_first_service_in_mode_dsr_on() {
    let Some(world) = World::with(&[], |server| {
        prepare(server, web(&json!({})));
    }) else {
        return;
    };
    let outside = world.sandbox.outside();
    let target = tcp(&addresses::NODE.to_string(), NODE_PORT);
    world.await_pods(outside, target, &["pod-d"]);
    assert_eq!(for_all_nodes(&world), [""; 0], "one Node is enough");
    assert_eq!(shown(&world), [["snat", "weighted"], ["snat", "weighted"]]);

    world.server.put(web(&in_envelopes()));
    await_envelopes(&world);
    let requests = for_all_nodes(&world);
    let watches = requests.iter().filter(|uri| uri.contains("watch=true"));
    assert_eq!(watches.count(), 1, "{requests:?}");
    assert_eq!(shown(&world), [["dsr", "maglev"], ["dsr", "maglev"]]);
    let status = world.shunt("status");
    assert_eq!(status["unlocated"], json!([]));
    assert_eq!(status["source"]["connected"], true);

    // A Node that goes takes its backends' envelopes along: they are sent on by SNAT.
    world.server.delete(&node("node-2", addresses::NODE2));
    world.await_pods(outside, target, &["pod-d"]);
    let unlocated = &world.shunt("status")["unlocated"];
    let address = addresses::POD_D.to_string();
    assert_eq!(
        *unlocated,
        json!([{ "service": "default/web", "address": address }])
    );
    world.server.put(node("node-2", addresses::NODE2));
    await_envelopes(&world);
    // And the annotation can be taken back.
    world.server.put(web(&json!({})));
    world.await_pods(outside, target, &["pod-d"]);
}

#[test]
fn the_first_event_waits_for_the_nodes_and_the_status_says_what_is_forbidden() {
    let Some(world) = World::with(&[], |server| {
        prepare(server, web(&in_envelopes()));
        server.set_faults(Faults {
            forbidden: Some(Kind::Node),
            ..Faults::default()
        });
    }) else {
        return;
    };
    let source = world.await_source("the status says so", |source| {
        source["trouble"]
            .as_str()
            .is_some_and(|trouble| trouble.contains("403"))
    });
    assert_eq!(source["connected"], false, "{source:#}");
    assert_eq!(source["synced"], false, "{source:#}");
    assert_eq!(source["node"]["found"], true, "it may read its own");
    assert_eq!(
        world.shunt("status")["synced"],
        false,
        "the first event waits"
    );
    assert!(
        world.status_text().contains("403"),
        "{}",
        world.status_text()
    );
    assert!(world.frontends().is_empty());
    let log = world.agent.log();
    assert!(log.contains("all Nodes cannot be followed"), "{log}");

    world.server.set_faults(Faults::default());
    let synced = |source: &Value| source["synced"] == true && source["trouble"].is_null();
    world.await_source("the right is given", synced);
    await_envelopes(&world);
}
