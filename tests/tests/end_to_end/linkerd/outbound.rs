//! Outbound policies of services.

use std::net::SocketAddr;

use linkerd2_proxy_api::outbound::{
    Backend, OutboundPolicy, TrafficSpec,
    backend::{self, endpoint_discovery::Kind as Discovery},
    http_route, opaque_route,
    outbound_policies_client::OutboundPoliciesClient,
    proxy_protocol::Kind,
    traffic_spec::Target,
};
use serde_json::json;
use tonic::{Code, transport::Channel};

use super::{
    client::{self, block_on, connect},
    services::{Served, events, service, web, with},
};
use crate::world::resync_with;

/// The policy of each target, as text.
const CASES: &[(&str, &str)] = &[
    (
        "10.96.0.10:80",
        "core/Service default/web:80 detect first: web.default.svc.cluster.local:80",
    ),
    (
        "203.0.113.7:80",
        "core/Service default/web:80 detect first: web.default.svc.cluster.local:80",
    ),
    (
        "web.default.svc.cluster.local:80",
        "core/Service default/web:80 detect first: web.default.svc.cluster.local:80",
    ),
    (
        "10.96.0.12:80",
        "core/Service default/local:80 opaque first: local.default.svc.cluster.local:80",
    ),
    ("10.96.0.10:81", "core/Service default/web:81 refused"),
    (
        "web.default.svc.cluster.local:81",
        "core/Service default/web:81 refused",
    ),
    (
        "10.96.0.16:80",
        "core/Service default/apex:80 detect random: 90*apex.default.svc.cluster.local:80 \
         10*web.default.svc.cluster.local:80",
    ),
    (
        "10.96.0.17:80",
        "core/Service default/tiers:80 detect first: empty.default.svc.cluster.local:80 \
         web.default.svc.cluster.local:80 apex.default.svc.cluster.local:80",
    ),
];

/// Targets that are no services.
const UNKNOWN: &[&str] = &[
    "10.1.1.3:8080",
    "192.168.16.10:22",
    "192.0.2.1:80",
    "nobody.default.svc.cluster.local:80",
    "db-0.db.default.svc.cluster.local:5432",
    "www.example.org:443",
];

fn spec(target: &str) -> TrafficSpec {
    let target = match target.parse::<SocketAddr>() {
        Ok(address) => Target::Addr(address.into()),
        Err(_) => Target::Authority(target.to_owned()),
    };
    TrafficSpec {
        source_workload: r#"{"ns":"default","pod":"web-1"}"#.to_owned(),
        target: Some(target),
    }
}

async fn policies(place: &str) -> OutboundPoliciesClient<Channel> {
    OutboundPoliciesClient::new(connect(place).await)
}

/// A backend as text, which fails if it has filters.
fn to(backend: &Backend, fails: bool) -> String {
    if fails {
        assert!(backend.kind.is_none(), "{backend:?}");
        return "failing".to_owned();
    }
    assert!(backend.queue.is_some(), "{backend:?}");
    match backend.kind.as_ref().unwrap() {
        backend::Kind::Forward(found) => {
            let address: SocketAddr = found.addr.unwrap().try_into().unwrap();
            address.to_string()
        }
        backend::Kind::Balancer(balancer) => {
            assert!(balancer.load.is_some(), "{balancer:?}");
            let discovery = balancer.discovery.clone().unwrap();
            let Discovery::Dst(destination) = discovery.kind.unwrap();
            destination.path
        }
    }
}

/// The destinations of opaque connections, as text.
fn of_opaque(route: &linkerd2_proxy_api::outbound::OpaqueRoute) -> String {
    use opaque_route::{RouteBackend, distribution::Kind};
    let [rule] = &route.rules[..] else {
        panic!("{route:?}");
    };
    let shown =
        |to_one: &RouteBackend| to(to_one.backend.as_ref().unwrap(), !to_one.filters.is_empty());
    match rule.backends.as_ref().unwrap().kind.as_ref().unwrap() {
        Kind::Empty(_) => {
            assert_eq!(rule.filters.len(), 1, "{rule:?}");
            "refused".to_owned()
        }
        Kind::FirstAvailable(first) => {
            let list: Vec<_> = first.backends.iter().map(shown).collect();
            format!("first: {}", list.join(" "))
        }
        Kind::RandomAvailable(random) => {
            let shares = random.backends.iter().map(|share| {
                format!(
                    "{}*{}",
                    share.weight,
                    shown(share.backend.as_ref().unwrap())
                )
            });
            format!("random: {}", shares.collect::<Vec<_>>().join(" "))
        }
    }
}

/// The destinations of requests, as text.
fn of_http(route: &linkerd2_proxy_api::outbound::HttpRoute) -> String {
    use http_route::{RouteBackend, distribution::Kind};
    let [rule] = &route.rules[..] else {
        panic!("{route:?}");
    };
    let shown =
        |to_one: &RouteBackend| to(to_one.backend.as_ref().unwrap(), !to_one.filters.is_empty());
    match rule.backends.as_ref().unwrap().kind.as_ref().unwrap() {
        Kind::Empty(_) => panic!("{rule:?}"),
        Kind::FirstAvailable(first) => {
            let list: Vec<_> = first.backends.iter().map(shown).collect();
            format!("first: {}", list.join(" "))
        }
        Kind::RandomAvailable(random) => {
            let shares = random.backends.iter().map(|share| {
                format!(
                    "{}*{}",
                    share.weight,
                    shown(share.backend.as_ref().unwrap())
                )
            });
            format!("random: {}", shares.collect::<Vec<_>>().join(" "))
        }
    }
}

/// A policy as text. All protocols have the same destinations.
fn shown(policy: OutboundPolicy) -> String {
    let of = client::resource(policy.metadata);
    match policy.protocol.unwrap().kind.unwrap() {
        Kind::Opaque(opaque) => match &*of_opaque(&opaque.routes[0]) {
            "refused" => format!("{of} refused"),
            shares => format!("{of} opaque {shares}"),
        },
        Kind::Detect(detect) => {
            let shares = of_opaque(&detect.opaque.unwrap().routes[0]);
            assert_eq!(of_http(&detect.http1.unwrap().routes[0]), shares);
            assert_eq!(of_http(&detect.http2.unwrap().routes[0]), shares);
            assert_eq!(detect.timeout.unwrap().seconds, 10);
            format!("{of} detect {shares}")
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn services_have_a_policy_and_other_targets_have_none() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = policies(&place).await;
        for (target, expected) in CASES {
            let policy = client.get(spec(target)).await.unwrap().into_inner();
            assert_eq!(shown(policy), *expected, "{target}");
            let mut watch = client.watch(spec(target)).await.unwrap().into_inner();
            let policy = watch.message().await.unwrap().unwrap();
            assert_eq!(shown(policy), *expected, "{target}");
        }
        for target in UNKNOWN {
            let error = client.get(spec(target)).await.unwrap_err();
            assert_eq!(error.code(), Code::NotFound, "{target}: {error}");
            let error = client.watch(spec(target)).await.unwrap_err();
            assert_eq!(error.code(), Code::NotFound, "{target}: {error}");
        }
        for target in ["10.96.0.10:0", "web.default.svc.cluster.local:0", ":80", ""] {
            let error = client.get(spec(target)).await.unwrap_err();
            assert_eq!(error.code(), Code::InvalidArgument, "{target}: {error}");
        }
        let nothing = TrafficSpec::default();
        let error = client.get(nothing).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
    });
}

#[test]
fn backends_of_a_split_that_cannot_be_used_fail() {
    let split = |mode: &str, backends: serde_json::Value| json!({ "main": { "mode": mode, "backends": backends } });
    let mixed = json!([
        { "ip": "192.0.2.7", "port": 81, "weight": 3 },
        { "invalid": "no such kind", "weight": 2 },
        { "ip": "192.0.2.8", "port": 81, "weight": 0 },
    ]);
    let unused = json!([{ "ip": "192.0.2.8", "port": 81, "weight": 0 }]);
    let services = [
        with(
            service("mixed", &["10.96.0.20"], 80, &web()),
            json!({ "splits": split("strict", mixed) }),
        ),
        with(
            service("unused", &["10.96.0.21"], 80, &web()),
            json!({ "splits": split("available", unused) }),
        ),
    ];
    let Some((_world, place)) = Served::world(&[resync_with(&services)]) else {
        return;
    };
    block_on(async {
        let mut client = policies(&place).await;
        for (target, expected) in [
            (
                "10.96.0.20:80",
                "core/Service default/mixed:80 detect random: 3*192.0.2.7:81 2*failing",
            ),
            (
                "10.96.0.21:80",
                "core/Service default/unused:80 detect first: failing",
            ),
        ] {
            let policy = client.get(spec(target)).await.unwrap().into_inner();
            assert_eq!(shown(policy), expected, "{target}");
        }
    });
}

#[test]
fn a_policy_is_followed_until_there_is_no_service() {
    let web = |opaque: bool| {
        let ports = if opaque { json!(["80"]) } else { json!([]) };
        let web = service("web", &["10.96.0.10"], 80, &web());
        with(web, json!({ "opaque_ports": ports }))
    };
    let Some(((mut world, _served), place)) = Served::world(&[resync_with(&[web(false)])]) else {
        return;
    };
    block_on(async {
        let mut client = policies(&place).await;
        let mut watch = client
            .watch(spec("10.96.0.10:80"))
            .await
            .unwrap()
            .into_inner();
        let policy = watch.message().await.unwrap().unwrap();
        assert!(shown(policy).contains("detect"));
        let update = json!({ "event": "UpdateService", "service": web(true) });
        world.apply(&update.to_string());
        let policy = watch.message().await.unwrap().unwrap();
        assert!(shown(policy).contains("opaque"));
        let id = json!({ "namespace": "default", "name": "web" });
        world.apply(&json!({ "event": "DeleteService", "id": id }).to_string());
        let error = watch.message().await.unwrap_err();
        assert_eq!(error.code(), Code::NotFound, "{error}");
    });
}
