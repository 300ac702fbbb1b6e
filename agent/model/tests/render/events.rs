//! The effect of each event on the state before it.

use std::collections::BTreeSet;

use shunt_model::{Footprint, FrontendKind, InterfacePattern, RenderError, decode};

use crate::world::{World, add, delete, nodes, resync, service, update};

/// A service on one ClusterIP with one backend, and a NodePort unless that is 0.
fn web(name: &str, address: &str, node_port: u16, backend: &str) -> String {
    service(
        name,
        &format!(
            r#""cluster_ips":["{address}"],
               "ports":{{"http":{{"protocol":"TCP","port":80,"node_port":{node_port}}}}},
               "backends":{{"http":[{{"ip":"{backend}","port":8080}}]}}"#
        ),
    )
}

#[test]
fn resync_removes_what_it_does_not_name_and_does_not_touch_what_is_right() {
    let (a, b) = (
        web("a", "10.96.0.1", 0, "10.1.1.1"),
        web("b", "10.96.0.2", 0, "10.1.1.2"),
    );
    let mut world = World::synced(&[], &[&a, &b]);
    let b = web("b", "10.96.0.2", 0, "10.1.1.3");
    let c = web("c", "10.96.0.3", 0, "10.1.1.4");
    assert_eq!(world.tell(&resync(&[], &[&c, &b])).counts(), (1, 1, 1));
    world.expect(&[
        "10.96.0.2:80/TCP ClusterIP Cluster default/b: 10.1.1.3:8080*1",
        "10.96.0.3:80/TCP ClusterIP Cluster default/c: 10.1.1.4:8080*1",
    ]);
    assert_eq!(world.tell(&resync(&[], &[&b, &c])).counts(), (0, 0, 0));
}

#[test]
fn the_plan_of_a_resync_holds_all_frontends_and_that_of_another_event_does_not() {
    let a = web("a", "10.96.0.1", 0, "10.1.1.1");
    let world = World::synced(&[], &[&a]);
    let plan = |line: &str| world.renderer.plan(decode(line).unwrap()).unwrap();
    assert_eq!(plan(&resync(&[], &[&a])).snapshot.unwrap().len(), 1);
    assert_eq!(plan(&add(&a)).snapshot, None);
}

#[test]
fn add_is_an_upsert_and_update_replaces_by_id() {
    let mut world = World::synced(&[], &[]);
    let first = web("a", "10.96.0.1", 0, "10.1.1.1");
    assert_eq!(world.tell(&add(&first)).counts(), (1, 0, 0));
    assert_eq!(world.tell(&add(&first)).counts(), (0, 0, 0));
    assert_eq!(
        world
            .tell(&add(&web("a", "10.96.0.1", 0, "10.1.1.2")))
            .counts(),
        (0, 1, 0)
    );
    assert_eq!(
        world
            .tell(&update(&web("a", "10.96.0.9", 0, "10.1.1.2")))
            .counts(),
        (1, 0, 1)
    );
    assert_eq!(
        world
            .tell(&update(&web("unknown", "10.96.0.3", 0, "10.1.1.2")))
            .counts(),
        (1, 0, 0)
    );
    world.expect(&[
        "10.96.0.3:80/TCP ClusterIP Cluster default/unknown: 10.1.1.2:8080*1",
        "10.96.0.9:80/TCP ClusterIP Cluster default/a: 10.1.1.2:8080*1",
    ]);
}

#[test]
fn an_update_changes_only_the_frontends_that_differ() {
    let with = |backends: &str| {
        service(
            "a",
            &format!(
                r#""cluster_ips":["10.96.0.1"],
                   "ports":{{"x":{{"protocol":"TCP","port":80}},"y":{{"protocol":"TCP","port":81}}}},
                   "backends":{{{backends}}}"#
            ),
        )
    };
    let mut world = World::synced(&[], &[&with(r#""x":[{"ip":"10.1.1.1","port":1}]"#)]);
    let both = with(r#""x":[{"ip":"10.1.1.1","port":1}],"y":[{"ip":"10.1.1.1","port":2}]"#);
    assert_eq!(world.tell(&update(&both)).counts(), (0, 1, 0));
}

#[test]
fn delete_removes_the_service_and_ignores_an_unknown_one() {
    let mut world = World::synced(
        &["192.168.16.10"],
        &[&web("a", "10.96.0.1", 30080, "10.1.1.1")],
    );
    assert_eq!(world.tell(&delete("b")).counts(), (0, 0, 0));
    assert_eq!(world.tell(&delete("a")).counts(), (0, 0, 2));
    assert_eq!(world.tell(&delete("a")).counts(), (0, 0, 0));
    world.expect(&[]);
}

#[test]
fn node_ports_follow_the_nodes_and_nothing_else_moves() {
    let (a, b) = (
        web("a", "10.96.0.1", 30080, "10.1.1.1"),
        web("b", "10.96.0.2", 0, "10.1.1.2"),
    );
    let mut world = World::synced(&["192.168.16.10"], &[&a, &b]);
    assert_eq!(
        world.tell(&nodes(&["192.168.16.10"], &[])).counts(),
        (0, 0, 0)
    );
    assert_eq!(
        world
            .tell(&nodes(&["192.168.16.20", "192.168.16.10"], &[]))
            .counts(),
        (1, 0, 0)
    );
    world.expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/a: 10.1.1.1:8080*1",
        "10.96.0.2:80/TCP ClusterIP Cluster default/b: 10.1.1.2:8080*1",
        "192.168.16.10:30080/TCP NodePort Cluster default/a: 10.1.1.1:8080*1",
        "192.168.16.20:30080/TCP NodePort Cluster this-node default/a: 10.1.1.1:8080*1",
    ]);
    assert_eq!(
        world.tell(&nodes(&["192.168.16.20"], &[])).counts(),
        (0, 0, 1)
    );
    assert_eq!(world.tell(&nodes(&[], &[])).counts(), (0, 0, 1));
    assert_eq!(
        world.tell(&nodes(&["192.168.16.10"], &[&b])).counts(),
        (1, 0, 0)
    );
}

#[test]
fn a_node_change_renders_the_listed_services_in_full_even_with_the_same_nodes() {
    let mut world = World::synced(
        &["192.168.16.10"],
        &[&web("a", "10.96.0.1", 30080, "10.1.1.1")],
    );
    let line = nodes(
        &["192.168.16.10"],
        &[
            &web("a", "10.96.0.1", 30081, "10.1.1.2"),
            &web("new", "10.96.0.2", 0, "10.1.1.3"),
        ],
    );
    assert_eq!(world.tell(&line).counts(), (2, 1, 1));
    world.expect(&[
        "10.96.0.1:80/TCP ClusterIP Cluster default/a: 10.1.1.2:8080*1",
        "10.96.0.2:80/TCP ClusterIP Cluster default/new: 10.1.1.3:8080*1",
        "192.168.16.10:30081/TCP NodePort Cluster default/a: 10.1.1.2:8080*1",
    ]);
}

#[test]
fn a_service_that_comes_later_stands_on_the_nodes_of_now() {
    let mut world = World::synced(&["192.168.16.10"], &[]);
    world.tell(&nodes(&["192.168.16.20"], &[]));
    world.tell(&add(&web("a", "10.96.0.1", 30080, "10.1.1.1")));
    assert_eq!(world.holder("192.168.16.20:30080/TCP"), "default/a");
    assert_eq!(world.holder("192.168.16.10:30080/TCP"), "nobody");
}

#[test]
fn interfaces_are_replaced_as_a_whole_and_reported_only_when_they_change() {
    let set = |names: &[&str]| -> BTreeSet<InterfacePattern> {
        names.iter().map(|name| name.parse().unwrap()).collect()
    };
    let mut world = World::new();
    let snapshot = r#"{"event":"Resync","node_ips":[],"services":[],"frontend_ifs":["eth0"],"backend_ifs":["veth0"]}"#;
    let frontend_ifs =
        r#"{"event":"UpdateLocalFrontendIfs","old":["ignored"],"new":["eth1","eth0","eth1"]}"#;
    let backend_ifs = r#"{"event":"UpdateLocalBackendIfs","old":7,"new":[]}"#;
    let patterns = r#"{"event":"UpdateLocalFrontendIfs","new":["veth*","auto","eth[01]"]}"#;
    for (line, expected) in [
        (snapshot, (Some(set(&["eth0"])), Some(set(&["veth0"])))),
        (snapshot, (None, None)),
        (frontend_ifs, (Some(set(&["eth0", "eth1"])), None)),
        (frontend_ifs, (None, None)),
        (backend_ifs, (None, Some(set(&[])))),
        (backend_ifs, (None, None)),
        (patterns, (Some(set(&["auto", "eth[01]", "veth*"])), None)),
        (patterns, (None, None)),
        (snapshot, (Some(set(&["eth0"])), Some(set(&["veth0"])))),
    ] {
        let plan = world.renderer.plan(decode(line).unwrap()).unwrap();
        assert!(plan.changes.is_empty());
        let found = (plan.frontend_ifs.clone(), plan.backend_ifs.clone());
        world.renderer.commit(plan);
        assert_eq!(found, expected, "{line}");
    }
    assert_eq!(*world.renderer.frontend_ifs(), set(&["eth0"]));
    assert_eq!(*world.renderer.backend_ifs(), set(&["veth0"]));
}

#[test]
fn service_cidrs_are_replaced_as_a_whole_and_reported_only_when_they_change() {
    let set = |ranges: &[&str]| Some(ranges.iter().map(|range| range.parse().unwrap()).collect());
    let mut world = World::new();
    let unknown = r#"{"event":"Resync","node_ips":[],"services":[]}"#;
    let known =
        r#"{"event":"Resync","node_ips":[],"services":[],"service_cidrs":["10.96.0.0/12"]}"#;
    let two = r#"{"event":"UpdateServiceCidrs","new":["fd00:10:96::/112","10.96.0.9/16"]}"#;
    let none = r#"{"event":"UpdateServiceCidrs","new":[]}"#;
    for (line, expected) in [
        (known, set(&["10.96.0.0/12"])),
        (known, None),
        (two, set(&["10.96.0.0/16", "fd00:10:96::/112"])),
        (two, None),
        (none, set(&[])),
        (known, set(&["10.96.0.0/12"])),
        (unknown, set(&[])),
        (two, set(&["10.96.0.0/16", "fd00:10:96::/112"])),
    ] {
        let plan = world.renderer.plan(decode(line).unwrap()).unwrap();
        assert!(plan.changes.is_empty());
        assert_eq!(plan.service_cidrs, expected, "{line}");
        world.renderer.commit(plan);
    }
    assert_eq!(
        Some(world.renderer.service_cidrs().clone()),
        set(&["10.96.0.0/16", "fd00:10:96::/112"])
    );
}

#[test]
fn an_address_is_a_services_as_long_as_one_has_a_frontend_there() {
    use FrontendKind::{ClusterIp, ExternalIp, LoadBalancerIp};
    let of = |name, field, address, port| {
        let port = format!(r#""ports":{{"http":{{"protocol":"UDP","port":{port}}}}}"#);
        add(&service(
            name,
            &format!(r#""{field}":["{address}"],{port}"#),
        ))
    };
    let mut world = World::synced(
        &["192.168.16.10"],
        &[&web("a", "10.96.0.1", 30080, "10.1.1.1")],
    );
    let is =
        |world: &World, address: &str| world.renderer.service_address(address.parse().unwrap());
    assert_eq!(is(&world, "10.96.0.1"), Some(ClusterIp));
    assert_eq!(is(&world, "10.96.0.2"), None);
    assert_eq!(is(&world, "192.168.16.10"), None, "NodePorts alone");
    assert_eq!(is(&world, "::10.96.0.1"), None);

    world.tell(&of("b", "external_ips", "203.0.113.7", 80));
    world.tell(&of("c", "load_balancer_ips", "203.0.113.7", 70));
    let shared = is(&world, "203.0.113.7");
    assert!(
        matches!(shared, Some(ExternalIp | LoadBalancerIp)),
        "{shared:?}"
    );
    world.tell(&of("d", "cluster_ips", "203.0.113.7", 90));
    assert_eq!(is(&world, "203.0.113.7"), Some(ClusterIp), "above all else");
    for (name, is_left) in [("d", true), ("c", true), ("b", false)] {
        world.tell(&delete(name));
        assert_eq!(is(&world, "203.0.113.7").is_some(), is_left, "{name}");
    }
    world.tell(&delete("a"));
    assert_eq!(is(&world, "10.96.0.1"), None);
}

#[test]
fn nothing_is_planned_before_the_first_resync() {
    let mut world = World::new();
    let lines = [
        add(&web("a", "10.96.0.1", 0, "10.1.1.1")),
        delete("b"),
        nodes(&["192.168.16.10"], &[]),
        r#"{"event":"UpdateServiceCidrs","new":["10.96.0.0/12"]}"#.to_owned(),
    ];
    for line in &lines {
        assert_eq!(
            world.renderer.plan(decode(line).unwrap()).unwrap_err(),
            RenderError::BeforeResync
        );
    }
    let plan = world.renderer.plan(decode(&resync(&[], &[])).unwrap());
    assert!(!world.renderer.is_synced(), "the Resync is not committed");
    world.renderer.commit(plan.unwrap());
    assert!(world.renderer.is_synced());
    assert!(world.renderer.plan(decode(&lines[0]).unwrap()).is_ok());
}

#[test]
fn a_plan_that_is_not_committed_has_no_effect() {
    let mut world = World::synced(
        &["192.168.16.10"],
        &[&web("a", "10.96.0.1", 30080, "10.1.1.1")],
    );
    let before = world.frontends();
    for line in [
        resync(&[], &[]),
        add(&web("b", "10.96.0.1", 30080, "10.1.1.9")),
        update(&web("a", "10.96.0.7", 0, "10.1.1.9")),
        delete("a"),
        nodes(&["192.168.16.20"], &[]),
        r#"{"event":"UpdateLocalFrontendIfs","new":["eth9"]}"#.to_owned(),
    ] {
        drop(world.renderer.plan(decode(&line).unwrap()).unwrap());
        assert_eq!(world.frontends(), before, "{line}");
        assert_eq!(world.conflicts(), [""; 0], "{line}");
    }
    assert_eq!(
        world
            .tell(&add(&web("c", "10.96.0.9", 30081, "10.1.1.9")))
            .counts(),
        (2, 0, 0)
    );
}

#[test]
fn events_meet_if_they_are_about_one_service_or_claim_one_frontend_or_port_of_the_nodes() {
    let a = web("a", "10.96.0.1", 30080, "10.1.1.1");
    let world = World::synced(&[], &[&a, &web("b", "10.96.0.2", 0, "10.1.1.1")]);
    let footprint = |line: &str| {
        let event = decode(line).unwrap();
        Footprint::of(&event, &world.renderer.plan(event.clone()).unwrap())
    };
    let meets = |line: &str, other: &str| {
        let [one, other] = [line, other].map(footprint);
        assert_eq!(one.meets(&other), other.meets(&one));
        one.meets(&other)
    };
    let new = add(&web("c", "10.96.0.3", 30083, "10.1.1.1"));
    assert!(meets(&new, &new));
    assert!(meets(&new, &delete("c")), "though it is not known yet");
    let takes = add(&web("d", "10.96.0.1", 0, "10.1.1.2"));
    assert!(meets(&takes, &delete("a")), "the frontend is given up");
    assert!(!meets(&new, &takes), "also with the same backends");
    assert!(!meets(&new, &delete("b")));
    // No event has named the nodes yet.
    let same_port = add(&web("e", "10.96.0.5", 30083, "10.1.1.1"));
    assert!(meets(&new, &same_port));
    let as_own = add(&web("f", "10.96.0.6", 80, "10.1.1.1"));
    assert!(meets(&new, &as_own), "a node may have that address");
    for all in [&nodes(&[], &[]), &resync(&[], &[])] {
        assert!(meets(all, &new) && meets(all, &delete("unknown")));
    }
    let [clients, pods] = ["Frontend", "Backend"]
        .map(|side| format!(r#"{{"event":"UpdateLocal{side}Ifs","new":["eth0"]}}"#));
    assert!(meets(&clients, &clients) && !meets(&clients, &pods) && !meets(&clients, &new));
}
