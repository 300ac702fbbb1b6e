//! Rules 32 to 38: which endpoints are for this node.

use std::sync::Arc;

use serde_json::{Value, json};
use shunt_model::{Override, Overrides, Service};

use super::world::World;

/// An endpoint with hints: `(address, node, zones, nodes)`.
fn hinted(last: u8, node: &str, zones: &[&str], nodes: &[&str]) -> Value {
    let named = |names: &[&str]| -> Vec<Value> {
        names.iter().map(|name| json!({ "name": name })).collect()
    };
    json!({
        "addresses": [format!("10.0.0.{last}")],
        "nodeName": node,
        "hints": { "forZones": named(zones), "forNodes": named(nodes) },
    })
}

fn not_ready(mut endpoint: Value, terminating: bool) -> Value {
    endpoint["conditions"] = json!({ "ready": false, "terminating": terminating });
    endpoint
}

#[test]
fn hints_choose_this_node_then_its_zone_then_all() {
    let near = hinted(1, "there", &["a"], &["here"]);
    let zone = hinted(2, "there", &["a", "b"], &["there"]);
    let far = hinted(3, "there", &["b"], &["there"]);
    let bare = hinted(4, "there", &[], &[]);
    let only_zone = hinted(5, "there", &["a"], &[]);
    for (why, zone_here, endpoints, expected) in [
        (
            "node",
            Some("a"),
            vec![&near, &zone, &far],
            ["C", "", ""].as_slice(),
        ),
        (
            "without a zone here",
            None,
            vec![&near, &zone, &far],
            &["C", "", ""],
        ),
        (
            "none for this node: zone",
            Some("a"),
            vec![&zone, &far],
            &["C", ""],
        ),
        (
            "one without a hint for nodes: zone",
            Some("a"),
            vec![&near, &far, &only_zone],
            &["C", "", "C"],
        ),
        (
            "another zone",
            Some("b"),
            vec![&zone, &far, &only_zone],
            &["C", "C", ""],
        ),
        (
            "none for this zone: all",
            Some("c"),
            vec![&zone, &far],
            &["C", "C"],
        ),
        ("no zone: all", None, vec![&zone, &far], &["C", "C"]),
        (
            "one without any hint: all",
            Some("a"),
            vec![&near, &far, &bare],
            &["C", "C", "C"],
        ),
    ] {
        let world = World::new().slice(json!(endpoints)).node("here", zone_here);
        let found = world.endpoints();
        let scopes = found
            .iter()
            .map(|text| text.split_once(' ').map_or("", |(_, scopes)| scopes));
        assert_eq!(scopes.collect::<Vec<_>>(), expected, "{why}");
    }
}

#[test]
fn hints_of_endpoints_that_are_not_ready_do_not_count() {
    let near = hinted(1, "there", &["a"], &[]);
    let far = hinted(2, "there", &["b"], &[]);
    let bare = hinted(3, "there", &[], &[]);
    let world = World::new().slice(json!([near, far, not_ready(bare.clone(), false)]));
    assert_eq!(
        world.endpoints(),
        ["10.0.0.1:8080 C", "10.0.0.2:8080", "10.0.0.3:8080 CN"]
    );
    // The only one for this zone is on its way out: then all that are ready are used.
    let world = World::new().slice(json!([not_ready(near, true), far]));
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 CTS", "10.0.0.2:8080 C"]);
    // Where nothing is ready, hints do not count at all.
    let world = World::new().slice(json!([not_ready(far, true), not_ready(bare, true)]));
    assert_eq!(
        world.endpoints(),
        ["10.0.0.2:8080 CTS", "10.0.0.3:8080 CTS"]
    );
}

#[test]
fn a_drained_endpoint_counts_as_one_that_is_not_ready() {
    let near = hinted(1, "here", &["a"], &["here"]);
    let zone = hinted(2, "there", &["a", "b"], &["there"]);
    let far = hinted(3, "there", &["b"], &["there"]);
    let bare = hinted(4, "there", &[], &[]);
    let only_zone = hinted(5, "here", &["a"], &[]);
    let leaving = not_ready(hinted(6, "there", &["a"], &["here"]), true);
    let all = [near, zone, far, bare, only_zone, leaving];
    let scopes = |service: &Service, drained: usize| {
        let endpoints = service.ports[0].endpoints.iter().enumerate();
        let others = endpoints.filter(|(number, _)| *number != drained);
        others.map(|(_, one)| one.scopes).collect::<Vec<_>>()
    };
    for present in 1_usize..1 << all.len() {
        let endpoints = (0..all.len()).filter(|number| present & (1 << number) != 0);
        let endpoints: Vec<Value> = endpoints.map(|number| all[number].clone()).collect();
        let told = Arc::new(World::new().slice(json!(endpoints)).model());
        for drained in 0..endpoints.len() {
            let mut unready = endpoints.clone();
            unready[drained] = not_ready(unready[drained].clone(), false);
            let expected = World::new().slice(json!(unready)).model();
            let ip = told.ports[0].endpoints[drained].ip;
            let drain = Override::Drain { ip, port: None };
            let found = Overrides::new([drain]).apply(Arc::clone(&told), 1);
            assert_eq!(
                scopes(&found, drained),
                scopes(&expected, drained),
                "{endpoints:?} without {drained}"
            );
        }
    }
}

#[test]
fn the_local_set_knows_no_hints() {
    let world = World::new().slice(json!([
        hinted(1, "here", &["b"], &[]),
        hinted(2, "there", &["a"], &[]),
    ]));
    assert_eq!(world.endpoints(), ["10.0.0.1:8080 L", "10.0.0.2:8080 C"]);
}

#[test]
fn each_family_and_each_port_has_hints_of_its_own() {
    let ports = || json!([{ "name": "http", "port": 8080 }]);
    let v6 = |last: u8, zones: &[&str]| {
        let mut endpoint = hinted(0, "there", zones, &[]);
        endpoint["addresses"] = json!([format!("fd00::{last}")]);
        endpoint
    };
    let world = World::new()
        .slice(json!([
            hinted(1, "there", &["a"], &[]),
            hinted(2, "there", &["b"], &[])
        ]))
        .slice_of("IPv6", ports(), json!([v6(1, &["a"]), v6(2, &[])]));
    assert_eq!(
        world.endpoints(),
        [
            "10.0.0.1:8080 C",
            "10.0.0.2:8080",
            "fd00::1:8080 C",
            "fd00::2:8080 C"
        ]
    );
}

#[test]
fn endpoints_that_are_not_for_this_node_are_there() {
    let world = World::new().slice(json!([
        hinted(1, "there", &["a"], &[]),
        hinted(2, "there", &["b"], &[]),
    ]));
    let endpoints = world.port().endpoints;
    assert_eq!(
        endpoints.len(),
        2,
        "so that a drop can be told from a rejection"
    );
}
