//! The outcome for a service's ports.

use serde_json::{Value, json};

use super::world::{World, backend, parent};
use crate::{routes::book::RouteKind, translate::problem::Problem};

fn web() -> Value {
    json!([parent("web", json!({}))])
}

#[test]
fn a_route_splits_the_ports_of_its_protocol_that_it_names() {
    let to = || json!([backend("v1", 9), { "name": "v2", "port": 8080 }]);
    let split = "strict v1:80*9 v2:8080*1";
    for (fields, expected) in [
        (json!({}), [("alt", split), ("http", split)].as_slice()),
        (json!({ "port": 80 }), &[("http", split)]),
        (json!({ "sectionName": "alt" }), &[("alt", split)]),
        (
            json!({ "sectionName": "http", "port": 80 }),
            &[("http", split)],
        ),
        (json!({ "sectionName": "http", "port": 8080 }), &[]),
        (json!({ "port": 81 }), &[]),
        (
            json!({ "group": "core" }),
            &[("alt", split), ("http", split)],
        ),
        (json!({ "group": "x" }), &[]),
        (json!({ "kind": "Gateway" }), &[]),
        (json!({ "name": "other" }), &[]),
        (
            json!({ "namespace": "default", "port": 80 }),
            &[("http", split)],
        ),
        (json!({ "namespace": "other" }), &[]),
    ] {
        let parents = json!([parent("web", fields.clone())]);
        let world = World::default().service("web").tcp("r", 1, parents, to());
        let (found, problems) = world.splits();
        let found: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
        assert_eq!(
            (found.as_slice(), &*problems),
            (expected, &[][..]),
            "{fields}"
        );
    }
    let rules = json!([{ "backendRefs": [backend("v1", 1)] }]);
    let world = World::default().service("web");
    let world = world.route(RouteKind::Udp, "r", 1, web(), rules);
    let (found, _) = world.splits();
    assert_eq!(
        found,
        [("dns".to_owned(), "strict v1:80*1".to_owned())].into()
    );
}

#[test]
fn a_route_of_another_namespace_than_its_service_changes_nothing() {
    let parents = json!([parent("web", json!({ "namespace": "default" }))]);
    let world = World::default().service("web");
    let world = world.tcp("other/r", 1, parents, json!([backend("v1", 1)]));
    assert_eq!(world.split("http"), "");
}

#[test]
fn the_oldest_route_has_a_port_then_the_first_by_name() {
    let to = |name: &str| json!([backend(name, 1)]);
    let only_80 = || json!([parent("web", json!({ "port": 80 }))]);
    let world = World::default()
        .service("web")
        .tcp("a", 3, web(), to("young"))
        .tcp("z", 2, only_80(), to("old"));
    assert_eq!(world.split("http"), "strict old:80*1");
    assert_eq!(
        world.split("alt"),
        "strict young:80*1",
        "nobody older has it"
    );
    let world = world.tcp("y", 2, only_80(), to("first"));
    assert_eq!(world.split("http"), "strict first:80*1");
    // One that cannot be followed is not in the way of others.
    let no_rule = json!([]);
    let world = world.route(RouteKind::Tcp, "oldest", 1, web(), no_rule);
    assert_eq!(world.split("http"), "strict first:80*1");
}

#[test]
fn a_route_has_one_rule() {
    let rule = || json!({ "backendRefs": [backend("v1", 1)] });
    for (rules, expected) in [
        (json!([rule()]), "strict v1:80*1"),
        (json!([rule(), rule()]), ""),
        (json!([]), ""),
        // No backend gets anything.
        (json!([{}]), "strict"),
        (
            json!([{ "backendRefs": [backend("v1", 0)] }]),
            "strict v1:80*0",
        ),
    ] {
        let world = World::default().service("web");
        let world = world.route(RouteKind::Tcp, "r", 1, web(), rules.clone());
        assert_eq!(world.split("http"), expected, "{rules}");
    }
}

#[test]
fn weights_that_nobody_can_add_up_split_nothing() {
    for (weights, is_split) in [([u32::MAX, 0], true), ([u32::MAX, 1], false)] {
        let [a, b] = weights;
        let backends = json!([backend("v1", a), backend("v2", b)]);
        let world = World::default().service("web").tcp("r", 1, web(), backends);
        assert_eq!(!world.split("http").is_empty(), is_split, "{weights:?}");
        let world = World::default().service("web");
        let world = world.traffic_split("t", 1, "web", &[("v1", a), ("v2", b)]);
        let (splits, problems) = world.splits();
        assert_eq!(
            (!splits.is_empty(), problems.len()),
            (is_split, usize::from(!is_split))
        );
    }
}

#[test]
fn a_backend_that_cannot_be_keeps_its_share_and_is_refused() {
    for (reference, expected) in [
        (backend("v1", 3), "v1:80*3"),
        // The service itself, and none that there is: the renderer knows.
        (backend("web", 3), "web:80*3"),
        (
            json!({ "name": "v1", "port": 80, "group": "core", "weight": 3 }),
            "v1:80*3",
        ),
        (json!({ "name": "v1", "weight": 3 }), "!*3"),
        (
            json!({ "name": "v1", "port": 80, "kind": "Bucket", "weight": 3 }),
            "!*3",
        ),
        (
            json!({ "name": "v1", "port": 80, "group": "x", "weight": 3 }),
            "!*3",
        ),
        (
            json!({ "name": "v1", "port": 80, "namespace": "default", "weight": 3 }),
            "v1:80*3",
        ),
        (
            json!({ "name": "v1", "port": 80, "namespace": "other", "weight": 3 }),
            "!*3",
        ),
    ] {
        let backends = json!([backend("v2", 1), reference]);
        let world = World::default().service("web").tcp("r", 1, web(), backends);
        assert_eq!(
            world.split("http"),
            format!("strict v2:80*1 {expected}"),
            "{reference}"
        );
    }
}

#[test]
fn a_grant_is_of_the_backends_namespace_for_a_kind_of_routes_there() {
    let gateway = "gateway.networking.k8s.io";
    let from = |group: &str, kind: &str, namespace: &str| json!([{ "group": group, "kind": kind, "namespace": namespace }]);
    let tcp = || from(gateway, "TCPRoute", "default");
    let any = || json!([{ "group": "", "kind": "Service" }]);
    for (namespace, from, to, is_granted) in [
        ("other", tcp(), any(), true),
        (
            "other",
            tcp(),
            json!([{ "group": "", "kind": "Service", "name": "v1" }]),
            true,
        ),
        (
            "other",
            tcp(),
            json!([{ "group": "", "kind": "Service", "name": "v2" }]),
            false,
        ),
        (
            "other",
            tcp(),
            json!([{ "group": "", "kind": "Secret" }]),
            false,
        ),
        ("other", tcp(), json!([]), false),
        ("default", tcp(), any(), false),
        ("third", tcp(), any(), false),
        ("other", from(gateway, "UDPRoute", "default"), any(), false),
        ("other", from(gateway, "TCPRoute", "third"), any(), false),
        ("other", from("x", "TCPRoute", "default"), any(), false),
        ("other", json!([]), any(), false),
    ] {
        let shown = format!("{namespace} {from} {to}");
        let backends = json!([{ "name": "v1", "port": 80, "namespace": "other" }]);
        let world = World::default().service("web").tcp("r", 1, web(), backends);
        let world = world.grant_from(namespace, from, to);
        let expected = if is_granted {
            "strict other/v1:80*1"
        } else {
            "strict !*1"
        };
        assert_eq!(world.split("http"), expected, "{shown}");
    }
}

#[test]
fn a_traffic_split_is_of_all_ports_and_has_the_port_that_is_asked_for() {
    let world = World::default().service("web");
    let world = world.traffic_split("t", 1, "web", &[("web", 9), ("v2", 1)]);
    let (found, _) = world.splits();
    let expected = [
        ("alt", "available web:8080*9 v2:8080*1"),
        ("dns", "available web:80*9 v2:80*1"),
        ("http", "available web:80*9 v2:80*1"),
    ];
    let found: Vec<_> = found.iter().map(|(a, b)| (&**a, &**b)).collect();
    assert_eq!(found, expected);
}

#[test]
fn the_oldest_traffic_split_counts_and_none_whose_weights_are_all_zero() {
    let zero = World::default().service("web");
    let zero = zero.traffic_split("t", 2, "web", &[("v1", 0), ("v2", 0)]);
    assert_eq!(zero.split("http"), "");
    let young = zero.traffic_split("u", 3, "web", &[("v1", 1)]);
    assert_eq!(
        young.split("http"),
        "",
        "the older one says that there is no split"
    );
    let old = young.traffic_split("v", 1, "web", &[("v2", 1)]);
    assert_eq!(old.split("http"), "available v2:80*1");
    for root in ["other", "web.other", ""] {
        let world = World::default().service("web");
        let world = world.traffic_split("t", 1, root, &[("v2", 1)]);
        assert_eq!(world.split("http"), "", "{root}");
    }
}

#[test]
fn a_route_has_its_port_before_a_traffic_split_however_old() {
    let only_80 = json!([parent("web", json!({ "port": 80 }))]);
    let world = World::default()
        .service("web")
        .traffic_split("t", 1, "web", &[("v2", 1)])
        .tcp("r", 9, only_80, json!([backend("v1", 1)]));
    assert_eq!(world.split("http"), "strict v1:80*1");
    assert_eq!(world.split("alt"), "available v2:8080*1");
    assert_eq!(world.split("dns"), "available v2:80*1");
}

#[test]
fn a_service_profile_splits_what_no_route_has_and_before_a_traffic_split() {
    const WEB: &str = "web.default.svc.cluster.local";
    let only_80 = json!([parent("web", json!({ "port": 80 }))]);
    let world = World::default().service("web");
    let world = world.traffic_split("t", 1, "web", &[("v2", 1)]);
    let empty = world.profile(WEB, &[("v1.default.svc.cluster.local", "0")]);
    assert_eq!(
        empty.split("alt"),
        "available v2:8080*1",
        "it splits nothing"
    );
    let places = [
        (WEB, "900m"),
        ("v2.other.svc.cluster.local:81", "100m"),
        ("v1.default.svc.cluster.local", "0"),
    ];
    let world = empty.profile(WEB, &places);
    let shares = |asked| format!("available web:{asked}*900 other/v2:81*100 v1:{asked}*0");
    assert_eq!(world.split("http"), shares(80));
    let world = world.tcp("r", 9, only_80, json!([backend("v1", 1)]));
    assert_eq!(world.split("http"), "strict v1:80*1");
    assert_eq!(world.split("alt"), shares(8080));
    assert_eq!(world.split("dns"), shares(80));
}

#[test]
fn what_a_service_profile_says_wrongly_is_told() {
    const WEB: &str = "web.default.svc.cluster.local";
    let world = World::default().service("web");
    let bad = [("example.org:80", "1"), ("v2.default.svc:80", "1")];
    let world = world.profile(WEB, &bad);
    let (splits, problems) = world.splits();
    assert_eq!(splits["http"], "available v2:80*1000");
    let expected = Problem::ServiceProfileOverride {
        profile: WEB.into(),
        authority: "example.org:80".into(),
    };
    assert_eq!(problems, [expected]);
    let many = [
        ("v1.default.svc:80", "4000000"),
        ("v2.default.svc:80", "4000000"),
    ];
    let (splits, problems) = world.profile(WEB, &many).splits();
    assert!(splits.is_empty());
    assert_eq!(problems, [Problem::ServiceProfileWeights(WEB.into())]);
}

#[test]
fn a_service_profile_of_another_domain_is_of_another_cluster() {
    for (name, expected) in [
        ("web.default.svc.cluster.local", "available v1:80*1000"),
        ("web.default.svc.example.org", ""),
        ("web.default.svc.cluster.local.example.org", ""),
        ("web.default.svc", ""),
        ("web.default", ""),
    ] {
        let world = World::default().service("web");
        let world = world.profile(name, &[("v1.default.svc.cluster.local", "1")]);
        assert_eq!(world.split("http"), expected, "{name}");
    }
    let world = World::default().service("web");
    let world = world.profile("web.default.svc.another", &[("v1.default.svc", "1")]);
    let own = "web.default.svc.cluster.local";
    let world = world.profile(own, &[("v2.default.svc", "1k")]);
    assert_eq!(world.split("http"), "available v2:80*1000000");
}
