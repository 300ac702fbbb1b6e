//! All nodes are followed as soon as a Service is in mode dsr.

use serde_json::json;

use super::world::{World, node, service, slice};
use crate::source::kubernetes::{Service, engine::Change, watch::step::Step};

/// The Service `web` with this annotation.
fn web(forwarding: &str) -> Service {
    let Step::Applied(plain) = service("web", "2026-01-01T00:00:00Z", json!({})) else {
        unreachable!("it is applied");
    };
    let annotated = json!({
        "metadata": {
            "namespace": "default", "name": "web", "uid": "web",
            "annotations": { "service.shunt.io/forwarding": forwarding },
        },
    });
    let annotated: Service = serde_json::from_value(annotated).unwrap();
    Service {
        forwarding: annotated.forwarding,
        ..plain
    }
}

#[test]
fn the_first_event_of_a_cluster_with_such_a_service_has_all_nodes() {
    let mut world = World::new();
    world.list_nothing();
    world
        .engine
        .take(Change::Node(node("here", "a", "192.0.2.1")));
    assert!(!world.engine.wants_peers());
    let listed = Step::listed(vec![web("dsr")]);
    world.engine.take(Change::Service(listed));
    assert!(world.engine.wants_peers());
    assert_eq!(world.events(), [""; 0], "it waits for the nodes");
    world.engine.take(Change::Peer(Step::listed(Vec::new())));
    assert_eq!(world.events().len(), 1);
    world
        .engine
        .take(Change::Peer(node("there", "b", "192.0.2.2")));
    assert_eq!(world.events(), [r#"UpdateNodes {"there": [192.0.2.2]}"#]);
    // Said again, it is nothing new.
    world
        .engine
        .take(Change::Peer(node("there", "b", "192.0.2.2")));
    assert_eq!(world.events(), [""; 0]);
}

#[test]
fn other_services_are_told_of_while_the_nodes_are_waited_for() {
    let mut world = World::synced();
    world
        .engine
        .take(Change::Service(Step::Applied(web("snat"))));
    world.engine.take(slice("web", "web-1", &["10.1.1.3"]));
    assert!(!world.engine.wants_peers());
    assert_eq!(world.events(), ["UpdateService default/web 10.1.1.3"]);
    world
        .engine
        .take(Change::Service(Step::Applied(web("dsr"))));
    assert!(world.engine.wants_peers());
    assert_eq!(world.events(), ["UpdateService default/web 10.1.1.3"]);
    let there = node("there", "b", "192.0.2.2");
    world.engine.take(Change::Peer(there.clone()));
    assert_eq!(world.events(), [r#"UpdateNodes {"there": [192.0.2.2]}"#]);
    let Step::Applied(there) = there else {
        unreachable!("it is applied");
    };
    world.engine.take(Change::Peer(Step::Deleted(there)));
    assert_eq!(world.events(), ["UpdateNodes {}"]);
}
