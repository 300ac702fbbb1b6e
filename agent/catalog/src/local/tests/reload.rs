//! Definitions in files, read again.

use serde_json::{Value, json};

use super::world::{World, define, register, service};
use crate::local::{
    definition::{check::CheckDefinition, fields::Fields, file::Defined},
    state::{effects::Effects, register::Change},
};

fn named(name: &str) -> Value {
    json!({ "Name": name, "Check": { "TTL": "10s" }, "Connect": { "SidecarService": {} } })
}

#[test]
fn what_is_the_same_stays_and_what_is_gone_goes() {
    let mut world = World::default();
    world.change(&register(json!({ "Name": "registered" })));
    world.change(&define([named("a"), named("b")]));
    let ports = |world: &World| {
        ["a", "b"].map(|name| {
            let sidecar = world.service(&format!("{name}-sidecar-proxy"));
            sidecar.map(|sidecar| sidecar.port)
        })
    };
    assert_eq!(ports(&world), [Some(21000), Some(21001)]);
    let again = world.change(&define([named("b"), named("a")]));
    assert_eq!(again, Effects::default(), "nobody who waits is woken");
    assert_eq!(ports(&world), [Some(21000), Some(21001)]);
    let effects = world.change(&define([named("b")]));
    let changed: Vec<_> = effects.changed.iter().collect();
    assert_eq!(changed, ["a", "a-sidecar-proxy"]);
    assert_eq!(ports(&world), [None, Some(21001)]);
    assert!(world.service("registered").is_some(), "that is no file's");
    world.change(&define([]));
    assert_eq!(world.registry.known().services().len(), 1);
    assert_eq!(world.registry.known().checks().len(), 0);
}

#[test]
fn a_definition_that_is_wrong_changes_nothing() {
    let mut world = World::default();
    world.change(&define([named("a")]));
    let refused = world.try_change(&define([json!({ "Name": "b" }), json!({ "ID": "c" })]));
    let text = refused.unwrap_err().to_string();
    assert_eq!(text, "service c: Missing service name");
    assert!(world.service("a").is_some() && world.service("b").is_none());
}

#[test]
fn a_registration_holds_until_the_files_are_read_again() {
    let mut world = World::default();
    world.change(&define([json!({ "Name": "a", "Port": 1 })]));
    world.change(&register(json!({ "Name": "a", "Port": 2 })));
    assert_eq!(world.service("a").unwrap().port, 2);
    world.change(&define([json!({ "Name": "a", "Port": 1 })]));
    assert_eq!(world.service("a").unwrap().port, 1);
}

#[test]
fn a_check_of_a_file_goes_with_it_also_from_a_service_that_was_registered() {
    let mut world = World::default();
    world.change(&register(json!({ "Name": "a" })));
    let of_file = |names: &[&str]| {
        let checks = names.iter().map(|name| {
            let check = json!({ "Name": name, "ServiceID": "a", "TTL": "1s" });
            CheckDefinition::read(Fields::of(check, "").unwrap()).unwrap()
        });
        Change::Define(Defined {
            services: Vec::new(),
            checks: checks.collect(),
        })
    };
    let ids = |world: &World| {
        let checks = world.registry.known().own_checks("a");
        let ids = checks.map(|check| check.id.clone());
        ids.collect::<Vec<_>>()
    };
    world.change(&of_file(&["one", "other"]));
    assert_eq!(ids(&world), ["one", "other"]);
    world.change(&of_file(&["other"]));
    assert_eq!(ids(&world), ["other"]);
    world.change(&of_file(&[]));
    assert_eq!(ids(&world).len(), 0);
}

#[test]
fn a_check_that_was_registered_stays_over_the_reload_of_its_service() {
    let mut world = World::default();
    let of_file = json!({ "Name": "a", "Check": { "TTL": "1s", "CheckID": "of-file" } });
    world.change(&define([of_file]));
    let own = json!({ "Name": "own", "ServiceID": "a", "TTL": "1s" });
    world.change(&super::world::check(own));
    world.change(&Change::Define(Defined {
        services: vec![service(json!({ "Name": "a" }))],
        checks: Vec::new(),
    }));
    let checks = world.registry.known().checks();
    let ids: Vec<_> = checks.map(|check| check.id.as_str()).collect();
    assert_eq!(ids, ["own"]);
}
