//! All nodes are followed as soon as a Service is in mode dsr.

use serde_json::json;
use shunt_model::TrafficPolicy;

use super::world::{World, node, service, slice};
use crate::{Service, engine::Change, watch::step::Step};

/// The Service `web` with this annotation.
fn web(forwarding: &str) -> Service {
    let outside = json!({
        "externalIPs": ["203.0.113.7"], "ports": [{ "name": "http", "port": 80 }],
    });
    let Step::Applied(plain) = service("web", "2026-01-01T00:00:00Z", outside) else {
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
    // The same again is nothing new.
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

#[test]
fn only_services_of_the_outside_for_backends_anywhere_need_all_nodes() {
    let mut world = World::synced();
    let take = |world: &mut World, service: Service| {
        world.engine.take(Change::Service(Step::Applied(service)));
        world.engine.wants_peers()
    };
    let inside = Service {
        external_ips: Vec::new(),
        ..web("dsr")
    };
    assert!(!take(&mut world, inside.clone()));
    let mut ports = inside.ports.clone();
    ports[0].node_port = 30080.try_into().ok();
    assert!(take(&mut world, Service { ports, ..inside }));
    let local = Service {
        external_policy: TrafficPolicy::Local,
        ..web("dsr")
    };
    assert!(!take(&mut world, local));
    assert!(take(&mut world, web("dsr")));
    world
        .engine
        .take(Change::Service(Step::Deleted(web("dsr"))));
    assert!(!world.engine.wants_peers());
    assert!(take(&mut world, web("dsr")));
    world
        .engine
        .take(Change::Service(Step::listed(vec![web("snat")])));
    assert!(!world.engine.wants_peers());
}

#[test]
fn nodes_are_forgotten_when_they_are_watched_no_more() {
    let mut world = World::synced();
    world
        .engine
        .take(Change::Service(Step::Applied(web("dsr"))));
    world.engine.take(slice("web", "web-1", &["10.1.1.3"]));
    let there = node("there", "b", "192.0.2.2");
    world.engine.take(Change::Peer(Step::listed(Vec::new())));
    world.engine.take(Change::Peer(there));
    world.events();
    // A Service needs them again: what is known stays until they are listed again.
    world.engine.take(Change::NoPeers);
    assert_eq!(world.events(), [""; 0]);
    world
        .engine
        .take(Change::Service(Step::Applied(web("snat"))));
    world.events();
    world.engine.take(Change::NoPeers);
    assert_eq!(world.events(), ["UpdateNodes {}"]);
}

#[test]
fn an_annotation_that_is_not_heeded_says_nothing() {
    let mut world = World::with(|options| options.forwarding_by_annotation = false);
    world
        .engine
        .take(Change::Service(Step::Applied(web("dsr"))));
    assert!(!world.engine.wants_peers());
}
