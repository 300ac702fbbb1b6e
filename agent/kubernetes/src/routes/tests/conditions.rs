//! The status of a route.

use serde_json::{Value, json};

use super::world::{World, backend, parent};
use crate::routes::book::RouteKind;

/// A world with the Services `web` and `v1`.
fn world() -> World {
    World::default().service("web").service("v1")
}

fn web() -> Value {
    json!([parent("web", json!({}))])
}

/// Fails unless the route `r` of `world` has these conditions for its only parent.
#[track_caller]
fn is_found(world: &World, expected: &str, why: &str) {
    let [found] = <[String; 1]>::try_from(world.conditions(RouteKind::Tcp, "r")).unwrap();
    assert!(found.contains(expected), "{why}: {found}");
}

#[test]
fn a_route_is_accepted_for_ports_that_there_are() {
    let to = || json!([backend("v1", 1)]);
    for (parents, expected) in [
        (parent("web", json!({})), "Accepted ResolvedRefs"),
        (
            parent("web", json!({ "port": 8080 })),
            "Accepted ResolvedRefs",
        ),
        (
            parent("web", json!({ "port": 81 })),
            "NoMatchingParent (the Service default/web has no TCP port 81) ResolvedRefs",
        ),
        (
            parent("web", json!({ "sectionName": "dns" })),
            "NoMatchingParent (the Service default/web has no TCP port called dns)",
        ),
        (
            parent("missing", json!({})),
            "NoMatchingParent (there is no Service default/missing",
        ),
        (
            parent("web", json!({ "namespace": "other" })),
            "NotAllowedByListeners (the Service other/web is in another namespace",
        ),
    ] {
        let shown = parents.to_string();
        let world = world().tcp("r", 1, json!([parents]), to());
        is_found(&world, expected, &shown);
    }
}

#[test]
fn a_service_without_a_cluster_ip_is_no_parent() {
    for fields in [
        json!({ "clusterIP": "None" }),
        json!({ "type": "ExternalName" }),
    ] {
        let world =
            world()
                .service_with("web", &fields)
                .tcp("r", 1, web(), json!([backend("v1", 1)]));
        is_found(
            &world,
            "NoMatchingParent (there is no Service default/web",
            &fields.to_string(),
        );
    }
}

#[test]
fn parents_of_other_kinds_are_others_business_and_one_that_is_named_twice_is_one() {
    let parents = json!([
        { "name": "gateway" },
        parent("web", json!({})),
        parent("web", json!({})),
        parent("web", json!({ "port": 80 })),
    ]);
    let world = world().tcp("r", 1, parents, json!([backend("v1", 1)]));
    let found = world.conditions(RouteKind::Tcp, "r");
    assert_eq!(found, ["Accepted ResolvedRefs"; 2]);
}

#[test]
fn what_nobody_can_follow_is_not_accepted() {
    let rule = || json!({ "backendRefs": [backend("v1", 1)] });
    for (rules, expected) in [
        (json!([]), "UnsupportedValue (the route has 0 rules"),
        (
            json!([rule(), rule()]),
            "UnsupportedValue (the route has 2 rules",
        ),
        (
            json!([{ "backendRefs": [backend("v1", u32::MAX), backend("v1", 1)] }]),
            "UnsupportedValue (the weights are more than 4294967295 together)",
        ),
    ] {
        let world = world().route(RouteKind::Tcp, "r", 1, web(), rules.clone());
        is_found(&world, expected, &rules.to_string());
    }
}

#[test]
fn a_younger_route_is_told_who_has_its_ports() {
    let to = || json!([backend("v1", 1)]);
    let only_80 = || json!([parent("web", json!({ "port": 80 }))]);
    let world = world()
        .tcp("old", 1, only_80(), to())
        .tcp("r", 2, only_80(), to());
    is_found(
        &world,
        "Conflicted (port 80 is that of default/old, which is older)",
        "one port",
    );
    let found = world.conditions(RouteKind::Tcp, "old");
    assert_eq!(found, ["Accepted ResolvedRefs"]);
    let world = world.tcp("r", 2, web(), to());
    is_found(&world, "Accepted ResolvedRefs", "another port is left");
}

#[test]
fn references_that_lead_nowhere_are_named() {
    for (reference, expected) in [
        (backend("v1", 0), "Accepted ResolvedRefs"),
        (
            backend("missing", 1),
            "BackendNotFound (there is no Service default/missing with a cluster IP",
        ),
        (
            json!({ "name": "v1", "port": 81 }),
            "BackendNotFound (the Service default/v1 has no TCP port 81)",
        ),
        (
            json!({ "name": "v1" }),
            "BackendNotFound (the backend default/v1 has no port",
        ),
        (
            json!({ "name": "v1", "port": 80, "group": "x", "kind": "Y" }),
            "InvalidKind (the backend default/v1 is a Y of x, and no Service)",
        ),
        (
            json!({ "name": "v1", "port": 80, "namespace": "other" }),
            "RefNotPermitted (no ReferenceGrant there lets this route refer to the Service other/v1)",
        ),
    ] {
        let shown = reference.to_string();
        let backends = json!([backend("v1", 1), reference]);
        let world = world().tcp("r", 1, web(), backends);
        is_found(&world, expected, &shown);
        let [found] = <[String; 1]>::try_from(world.conditions(RouteKind::Tcp, "r")).unwrap();
        assert!(
            found.starts_with("Accepted "),
            "the rest of it is followed: {found}"
        );
    }
    let both = json!([backend("missing", 1), { "name": "v1", "port": 81 }, backend("missing", 2)]);
    let world = world().tcp("r", 1, web(), both);
    is_found(
        &world,
        "BackendNotFound (there is no Service default/missing with a cluster IP that is served \
         here; the Service default/v1 has no TCP port 81)",
        "the first reason, and each message once",
    );
}

#[test]
fn with_a_grant_it_is_told_whether_the_service_is_there() {
    let backends = || json!([{ "name": "v1", "port": 80, "namespace": "other" }]);
    let to = || json!([{ "group": "", "kind": "Service" }]);
    let granted = world().tcp("r", 1, web(), backends()).grant("other", to());
    is_found(
        &granted,
        "BackendNotFound (there is no Service other/v1",
        "it is not",
    );
    let there = granted.service("other/v1");
    is_found(&there, "Accepted ResolvedRefs", "it is");
}
