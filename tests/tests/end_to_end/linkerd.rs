//! linkerd's destination API, asked by the client of its own crate.

mod client;
mod follow;
mod mesh;
mod outbound;
mod services;

use serde_json::json;
use shunt_tests::SocketPath;
use tonic::Code;

use self::{
    client::{Client, block_on, labels},
    services::{FLAGS, Served, endpoint, events, pod, service},
};
use crate::world::{World, binary, resync_with};

const WEB: &str = "+10.1.1.3:8080(web-1) +10.1.2.3:8080(web-2)";

/// The answer to `GetProfile` for an instance that is not there.
const NO_PROFILE: &str = "not found";

/// First answers of `Get` and `GetProfile` for a path.
const CASES: &[(&str, &str, &str)] = &[
    // A service, by all its addresses and by its name.
    ("10.96.0.10:80", WEB, "web.default.svc.cluster.local"),
    ("10.96.0.10", WEB, "web.default.svc.cluster.local"),
    ("203.0.113.7:80", WEB, "web.default.svc.cluster.local"),
    ("192.168.16.20:30080", WEB, "web.default.svc.cluster.local"),
    (
        "web.default.svc.cluster.local:80",
        WEB,
        "web.default.svc.cluster.local",
    ),
    (
        "web.default.svc.cluster.local",
        WEB,
        "web.default.svc.cluster.local",
    ),
    // A port that it does not declare, or declares of another protocol.
    ("10.96.0.10:81", "none", "nothing"),
    ("10.96.0.13:53", "none", "nothing"),
    (
        "web.default.svc.cluster.local:81",
        "+10.1.1.3:81(web-1) +10.1.2.3:81(web-2)",
        "nothing",
    ),
    // No endpoints, and no service.
    ("10.96.0.11:80", "none", "empty.default.svc.cluster.local"),
    (
        "empty.default.svc.cluster.local:80",
        "none",
        "empty.default.svc.cluster.local",
    ),
    ("nobody.default.svc.cluster.local:80", "missing", "unknown"),
    (
        "nobody.default.svc.cluster.local:3306",
        "missing",
        "unknown opaque",
    ),
    // Of a service with policy Local those of this node; of each the ready ones, or what is left.
    (
        "local.default.svc.cluster.local:80",
        "+10.1.1.3:8080(web-1)",
        "local.default.svc.cluster.local opaque",
    ),
    (
        "leaving.default.svc.cluster.local:80",
        "+10.1.1.3:8080(web-1)",
        "leaving.default.svc.cluster.local",
    ),
    // A headless service and its instances. One that is not ready is no endpoint.
    (
        "db.default.svc.cluster.local:5432",
        "+10.1.1.4:5432(db-0)",
        "db.default.svc.cluster.local",
    ),
    (
        "db-0.db.default.svc.cluster.local:5432",
        "+10.1.1.4:5432(db-0)",
        "endpoint 10.1.1.4:5432(db-0) opaque",
    ),
    (
        "db-1.db.default.svc.cluster.local:5432",
        "none",
        "endpoint 10.1.2.4:5432(db-1) opaque",
    ),
    (
        "db-0.db.default.svc.cluster.local:7000",
        "+10.1.1.4:7000(db-0)",
        "endpoint 10.1.1.4:7000(db-0)",
    ),
    // The name of a pod is not its hostname.
    ("web-1.web.default.svc.cluster.local:80", "none", NO_PROFILE),
    // Splits: each destination is asked for by its own name.
    (
        "apex.default.svc.cluster.local:80",
        "+10.1.1.3:8080(web-1)",
        "apex.default.svc.cluster.local -> apex.default.svc.cluster.local:80*90 \
         web.default.svc.cluster.local:80*10",
    ),
    (
        "10.96.0.16:80",
        "+10.1.1.3:8080(web-1)",
        "apex.default.svc.cluster.local -> apex.default.svc.cluster.local:80*90 \
         web.default.svc.cluster.local:80*10",
    ),
    (
        "10.96.0.17:80",
        "none",
        "tiers.default.svc.cluster.local -> web.default.svc.cluster.local:80*1",
    ),
    // Workloads at addresses of their own, and at their node's.
    (
        "10.1.1.3:9999",
        "+10.1.1.3:9999(web-1)",
        "endpoint 10.1.1.3:9999(web-1)",
    ),
    (
        "10.1.1.3:3306",
        "+10.1.1.3:3306(web-1)",
        "endpoint 10.1.1.3:3306(web-1) opaque",
    ),
    (
        "[::ffff:10.1.1.3]:1",
        "+10.1.1.3:1(web-1)",
        "endpoint 10.1.1.3:1(web-1)",
    ),
    (
        "10.1.1.4:25",
        "+10.1.1.4:25(db-0)",
        "endpoint 10.1.1.4:25(db-0)",
    ),
    ("10.1.1.9:80", "+10.1.1.9:80", "endpoint 10.1.1.9:80"),
    (
        "192.168.16.10:9100",
        "+192.168.16.10:9100(web-1)",
        "endpoint 192.168.16.10:9100(web-1)",
    ),
    (
        "192.168.16.10:53",
        "+192.168.16.10:53",
        "endpoint 192.168.16.10:53",
    ),
    (
        "192.168.16.10:22",
        "+192.168.16.10:22",
        "endpoint 192.168.16.10:22",
    ),
    (
        "172.16.0.1:80",
        "+172.16.0.1:80(vm)",
        "endpoint 172.16.0.1:80(vm)",
    ),
    ("172.16.0.1:81", "+172.16.0.1:81", "unknown"),
    // Addresses without an owner.
    ("192.0.2.1:7", "+192.0.2.1:7", "unknown"),
    ("[fd00::9]:11211", "+[fd00::9]:11211", "unknown opaque"),
];

#[test]
fn every_kind_of_destination_is_answered() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        for (path, addresses, profile) in CASES {
            let mut updates = client.get(path, "").await.unwrap();
            assert_eq!(updates.next().await, *addresses, "Get {path}");
            let found = match client.profile(path).await {
                Ok(mut profiles) => profiles.next().await,
                Err(status) => {
                    assert_eq!(status.code(), Code::NotFound, "{path}: {status}");
                    NO_PROFILE.to_owned()
                }
            };
            assert_eq!(found, *profile, "GetProfile {path}");
        }
    });
}

#[test]
fn a_path_that_is_about_nothing_is_an_error() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        for path in [
            "",
            "10.0.0.1:0",
            "10.0.0.1:65536",
            "2001:db8::1",
            "fe80::1%eth0",
            "10.256.0.1:80",
            "web.default:80",
            "web.default.svc.example.org:80",
            "a.b.web.default.svc.cluster.local:80",
            "\u{1b}[2J.default.svc.cluster.local.",
        ] {
            for status in [
                client.get(path, "").await.err(),
                client.profile(path).await.err(),
            ] {
                let status = status.expect(path);
                assert_eq!(status.code(), Code::InvalidArgument, "{path}: {status}");
                assert!(!status.message().contains('\u{1b}'), "{status}");
            }
        }
        let nobody = client
            .profile("db-9.db.default.svc.cluster.local:5432")
            .await;
        assert_eq!(nobody.err().unwrap().code(), Code::NotFound);
    });
}

#[test]
fn endpoints_have_weights_labels_and_references() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut updates = client.get("10.96.0.10:80", "").await.unwrap();
        let (of_all, endpoints) = updates.added().await;
        assert_eq!(labels(&of_all), "namespace=default service=web");
        assert!(endpoints.iter().all(|endpoint| endpoint.weight == 10_000));
        let own: Vec<_> = endpoints
            .iter()
            .map(|endpoint| labels(&endpoint.metric_labels))
            .collect();
        assert_eq!(own, ["pod=web-1 replicaset=web zone=a", "pod=web-2 zone=b"]);
        let resource = client::resource(endpoints[0].resource_ref.clone());
        assert_eq!(resource, "core/Pod default/web-1:0");

        let mut profiles = client
            .profile("web.default.svc.cluster.local:80")
            .await
            .unwrap();
        let profile = profiles.profile().await;
        assert_eq!(
            client::resource(profile.parent_ref),
            "core/Service default/web:80"
        );
        let budget = profile.retry_budget.unwrap();
        assert_eq!(
            (budget.min_retries_per_second, budget.ttl.unwrap().seconds),
            (10, 10)
        );
        let mut profiles = client.profile("172.16.0.1:80").await.unwrap();
        let endpoint = profiles.profile().await.endpoint.unwrap();
        let own = labels(&endpoint.metric_labels);
        assert_eq!(own, "external_workload=vm namespace=default");
    });
}

#[test]
fn what_a_profile_says_of_requests_is_passed_on() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        let mut profiles = client.profile("10.96.0.16:80").await.unwrap();
        let profile = profiles.profile().await;
        let reference = client::resource(profile.profile_ref);
        assert_eq!(
            reference,
            "linkerd.io/ServiceProfile default/apex.default.svc.cluster.local:0"
        );
        let [route] = &profile.routes[..] else {
            panic!("{:?}", profile.routes);
        };
        assert_eq!(labels(&route.metrics_labels), "route=reads");
        assert!(route.is_retryable && route.condition.is_some());
        let budget = profile.retry_budget.unwrap();
        assert_eq!(
            (budget.min_retries_per_second, budget.ttl.unwrap().seconds),
            (7, 30)
        );
    });
}

#[test]
fn a_client_has_the_profile_of_its_own_namespace() {
    let mut web = service("web", &["10.96.0.10"], 80, &[endpoint("10.1.1.3", 8080)]);
    web["profile"] = json!({
        "name": "own",
        "clients": { "shop": {
            "name": "theirs",
            "dstOverrides": [
                { "authority": "v1.shop.svc.cluster.local:8080", "weight": 3 },
                { "authority": "v2.shop.svc.cluster.local", "weight": 1 },
            ],
        } },
    });
    let Some((_world, place)) = Served::world(&[resync_with(&[web])]) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        let own = "linkerd.io/ServiceProfile default/own:0";
        let theirs = "linkerd.io/ServiceProfile shop/theirs:0";
        let split = &[
            ("v1.shop.svc.cluster.local:8080", 3),
            ("v2.shop.svc.cluster.local:80", 1),
        ][..];
        for (token, reference, overrides) in [
            ("", own, &[][..]),
            (r#"{"ns":"default"}"#, own, &[]),
            (r#"{"ns":"shop","nodeName":"node-2"}"#, theirs, split),
            ("ns:shop", theirs, split),
        ] {
            let path = "web.default.svc.cluster.local:80";
            let mut profiles = client.profile_for(path, token).await.unwrap();
            let profile = profiles.profile().await;
            assert_eq!(client::resource(profile.profile_ref), reference, "{token}");
            let found = profile.dst_overrides.iter();
            let found: Vec<_> = found.map(|to| (&*to.authority, to.weight)).collect();
            assert_eq!(found, overrides, "{token}");
        }
    });
}

#[test]
fn a_token_says_whose_node_counts() {
    let Some((_world, place)) = Served::world(&events()) else {
        return;
    };
    block_on(async {
        let mut client = Client::at(&place).await;
        for (token, expected) in [
            ("", "+10.1.1.3:8080(web-1)"),
            ("ns:default", "+10.1.1.3:8080(web-1)"),
            ("garbage", "+10.1.1.3:8080(web-1)"),
            (
                r#"{"ns":"default","nodeName":"node-1","pod":"x"}"#,
                "+10.1.1.3:8080(web-1)",
            ),
            (r#"{"nodeName":"node-2"}"#, "+10.1.2.3:8080(web-2)"),
            (r#"{"nodeName":"node-3"}"#, "none"),
        ] {
            let path = "local.default.svc.cluster.local:80";
            let mut updates = client.get(path, token).await.unwrap();
            assert_eq!(updates.next().await, expected, "{token}");
        }
    });
}

#[test]
fn without_ipv6_services_have_the_addresses_of_the_other_family() {
    let both = [
        endpoint("10.1.1.3", 8080),
        endpoint("fd00:1::3", 8080),
        endpoint("fd00:1::4", 8080),
    ];
    let mut web_1 = pod("web-1", "10.1.1.3");
    web_1["ips"] = json!(["10.1.1.3", "fd00:1::3"]);
    let workloads = json!({ "event": "UpdateWorkloads", "workloads": [web_1] });
    let events = [
        resync_with(&[
            service("web", &["10.96.0.10", "fd00:10:96::10"], 80, &both),
            service("six", &["fd00:10:96::11"], 80, &both[1..]),
        ]),
        workloads.to_string(),
    ];
    for (flags, web, six) in [
        (
            &[][..],
            "+[fd00:1::3]:8080(web-1) +[fd00:1::4]:8080",
            "+[fd00:1::3]:8080(web-1) +[fd00:1::4]:8080",
        ),
        (&["--linkerd-ipv6=false"], "+10.1.1.3:8080(web-1)", "none"),
    ] {
        let Some((_world, place)) = Served::world_with(flags, &events) else {
            return;
        };
        block_on(async {
            let mut client = Client::at(&place).await;
            for (name, expected) in [("web", web), ("six", six)] {
                let path = format!("{name}.default.svc.cluster.local:80");
                let mut updates = client.get(&path, "").await.unwrap();
                assert_eq!(updates.next().await, expected, "{name} {flags:?}");
            }
        });
    }
}

#[test]
fn clients_that_know_nothing_are_shown_what_is_served() {
    let flags = ["--linkerd-api", "127.0.0.1:8086"];
    let Some(world) = World::with_flags(&flags) else {
        return;
    };
    let node = world.sandbox.node();
    node.enter(|| {
        block_on(async {
            let served = client::reflected("http://127.0.0.1:8086").await;
            assert_eq!(
                served,
                [
                    "grpc.health.v1.Health",
                    "grpc.reflection.v1.ServerReflection",
                    "io.linkerd.proxy.destination.Destination",
                    "io.linkerd.proxy.outbound.OutboundPolicies",
                ]
            );
            client::wait_until_healthy("http://127.0.0.1:8086").await;
        });
    });
}

#[test]
fn before_the_first_resync_calls_are_answered_and_their_messages_wait() {
    let Some(world) = World::new() else {
        return;
    };
    let socket = SocketPath::new();
    let place = format!("unix:{}", socket.path().display());
    let mut world = world.stopped().start(&[FLAGS[0], &place]);
    block_on(async {
        assert!(!client::is_healthy(&place).await);
        let mut client = Client::at(&place).await;
        let mut updates = client.get("10.96.0.10:80", "").await.unwrap();
        let mut profiles = client.profile("10.96.0.10:80").await.unwrap();
        world.apply(&events()[0]);
        assert_eq!(updates.next().await, "+10.1.1.3:8080 +10.1.2.3:8080");
        assert_eq!(profiles.next().await, "web.default.svc.cluster.local");
        client::wait_until_healthy(&place).await;
    });
}

#[test]
fn an_address_that_others_get_to_has_to_be_meant() {
    let Some(world) = World::new() else {
        return;
    };
    let world = world.stopped();
    let refused = world
        .try_start_of(&binary(), &["--linkerd-api", "0.0.0.0:8086"])
        .unwrap_err();
    let text = format!("{refused:#}");
    assert!(text.contains("--linkerd-api-remote"), "{text}");
    let flags = [FLAGS[0], "0.0.0.0:8086", "--linkerd-api-remote"];
    world.start(&flags).agent.stop().unwrap();
}
