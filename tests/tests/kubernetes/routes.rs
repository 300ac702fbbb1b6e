//! Routes and TrafficSplits share a Service's connections out among others.

use serde_json::{Value, json};
use shunt_tests::{ApiServer, Namespace, Target, addresses, wait_until};

use crate::{
    objects::{and, node, ready, service, slice, with},
    route_objects::{
        GRANTS, SERVICE_PROFILES, TCP_ROUTES, TRAFFIC_SPLITS, UDP_ROUTES, backend, backend_in,
        definition, grant, route, service_profile, tcp_route, traffic_split,
    },
    world::{REQUEST, SOON, World, is_refused, tcp},
};

const IP: &str = "10.96.0.10";

/// The Services `web` (pod-a), `v1` (pod-b) and `v2` (pod-d) on two nodes.
fn prepare(server: &ApiServer) {
    server.put(node("node-1", addresses::NODE));
    server.put(node("node-2", addresses::NODE2));
    for (name, ip, pod) in [
        ("web", IP, addresses::POD_A),
        ("v1", "10.96.0.11", addresses::POD_B),
        ("v2", "10.96.0.12", addresses::POD_D),
    ] {
        server.put(service(name, ip));
        server.put(slice(name, "4", &[ready(pod)]));
    }
}

fn define_all(server: &ApiServer) {
    server.put(definition(TCP_ROUTES, &["v1", "v1alpha2"]));
    server.put(definition(UDP_ROUTES, &["v1", "v1alpha2"]));
    server.put(definition(GRANTS, &["v1", "v1beta1"]));
    server.put(definition(TRAFFIC_SPLITS, &["v1alpha2", "v1alpha4"]));
}

/// The same of another namespace.
fn moved(object: Value, namespace: &str) -> Value {
    with(object, "/metadata/namespace", namespace)
}

/// Waits until some connections are refused, and the others are answered by `pod`.
#[track_caller]
fn await_refused_share(from: &Namespace, target: Target, pod: &str) {
    // A refusal takes a second of each client that gets one.
    const ASKED: u32 = 12;
    let mut last = Vec::new();
    let found = wait_until("a share is refused", SOON, || {
        let asked = from.enter(|| (0..ASKED).map(|_| target.ask(REQUEST)).collect::<Vec<_>>());
        let answers = asked.iter().flatten();
        let failures = asked.iter().filter_map(|outcome| outcome.as_ref().err());
        let is_right = answers.clone().count() > 0
            && answers.clone().all(|answer| answer.name == pod)
            && failures.clone().count() > 0
            && failures.clone().all(is_refused);
        last = asked;
        is_right.then_some(())
    });
    assert!(found.is_ok(), "{last:#?}");
}

#[test]
fn a_route_moves_a_services_connections_from_one_backend_to_another() {
    let Some(world) = World::with(&[], |server| {
        prepare(server);
        define_all(server);
        server.put(tcp_route(
            "canary",
            1,
            &[backend("v1", 100), backend("v2", 0)],
        ));
    }) else {
        return;
    };
    let (client, target) = (world.pod(), tcp(IP, 80));
    world.await_pods(client, target, &["pod-b"]);
    let put = |backends: &[Value]| world.server.put(tcp_route("canary", 1, backends));
    put(&[backend("v1", 0), backend("v2", 100)]);
    world.await_pods(client, target, &["pod-d"]);
    put(&[backend("v1", 50), backend("web", 50)]);
    world.await_pods(client, target, &["pod-a", "pod-b"]);
    // The endpoints of a backend are followed.
    world
        .server
        .put(slice("v1", "4", &[ready(addresses::POD_D)]));
    world.await_pods(client, target, &["pod-a", "pod-d"]);
    // A share that no backend can have is refused, and so is all if nothing is left.
    put(&[backend("v1", 50), backend("missing", 50)]);
    await_refused_share(client, target, "pod-d");
    put(&[backend("v1", 0)]);
    world.await_failure(client, target, is_refused);
    // Other services are what they were, and without the route this one is as well.
    world.await_pods(client, tcp("10.96.0.12", 80), &["pod-d"]);
    world.server.delete(&tcp_route("canary", 1, &[]));
    world.await_pods(client, target, &["pod-a"]);
}

#[test]
fn kinds_are_followed_as_soon_as_the_cluster_defines_them_and_until_it_does_not() {
    let Some(world) = World::with(&[], prepare) else {
        return;
    };
    let (client, target) = (world.pod(), tcp(IP, 80));
    world.await_pods(client, target, &["pod-a"]);
    let log = world.agent.log();
    let missing = "the cluster does not define TCPRoutes, UDPRoutes, ReferenceGrants, TrafficSplits, ServiceProfiles";
    assert_eq!(log.matches(missing).count(), 1, "{log}");
    let requests = world.server.requests();
    assert!(
        !requests.iter().any(|uri| uri.contains("tcproutes")),
        "{requests:?}"
    );

    // Only the older version is served.
    world.server.put(definition(TCP_ROUTES, &["v1alpha2"]));
    let older = route(("TCPRoute", "v1alpha2"), "r", 1, "web", &[backend("v1", 1)]);
    world.server.put(older);
    world.await_pods(client, target, &["pod-b"]);
    world.await_source("all is up to date", |source| source["connected"] == true);
    // A TrafficSplit has no port that a route has.
    world.server.put(definition(TRAFFIC_SPLITS, &["v1alpha2"]));
    world
        .server
        .put(traffic_split(&[("v2", 1), ("missing", 9)]));
    world.await_source("all is up to date", |source| source["connected"] == true);
    world.await_pods(client, target, &["pod-b"]);
    // The definition goes, and with it all its objects.
    world.server.delete(&definition(TCP_ROUTES, &[]));
    world.await_pods(client, target, &["pod-d"]);
    // Weights that are all zero are no split.
    world.server.put(traffic_split(&[("v2", 0), ("v1", 0)]));
    world.await_pods(client, target, &["pod-a"]);
    // A ServiceProfile comes before a TrafficSplit.
    world
        .server
        .put(definition(SERVICE_PROFILES, &["v1alpha2"]));
    world.server.put(service_profile("v2"));
    world.await_pods(client, target, &["pod-d"]);
    // With an impossible range of statuses it is unreadable, and its last readable state stays.
    let class = json!({ "condition": { "status": { "min": 500, "max": 600 } } });
    let routes = json!([{ "name": "a", "responseClasses": [class] }]);
    let unreadable = with(service_profile("v1"), "/spec/routes", routes);
    world.server.put(unreadable);
    world.await_source("it is unreadable", |source| source["unreadable"] == 1);
    world.await_pods(client, target, &["pod-d"]);
    // One of another domain does not count.
    let elsewhere = "web.default.svc.example.org";
    let elsewhere = with(service_profile("v2"), "/metadata/name", elsewhere);
    world.server.put(elsewhere);
    world.server.put(traffic_split(&[("v1", 1)]));
    world.server.delete(&service_profile("v2"));
    world.await_pods(client, target, &["pod-b"]);
}

#[test]
fn a_backend_in_another_namespace_needs_a_grant_for_as_long_as_it_is_used() {
    let Some(world) = World::with(&[], |server| {
        prepare(server);
        define_all(server);
        server.put(moved(service("far", "10.96.0.13"), "backends"));
        server.put(moved(
            slice("far", "4", &[ready(addresses::POD_D)]),
            "backends",
        ));
        server.put(tcp_route("r", 1, &[backend_in("backends", "far", 1)]));
    }) else {
        return;
    };
    let (client, target) = (world.pod(), tcp(IP, 80));
    for _ in 0..2 {
        world.await_failure(client, target, is_refused);
        world.server.put(grant("backends"));
        world.await_pods(client, target, &["pod-d"]);
        world.server.delete(&grant("backends"));
    }
    world.await_failure(client, target, is_refused);
}

#[test]
fn a_udp_route_is_for_udp_ports_and_a_node_port_is_not_split() {
    let ports = serde_json::json!([
        { "name": "http", "port": 80, "protocol": "TCP" },
        { "name": "http-udp", "port": 80, "protocol": "UDP" },
    ]);
    let both = |name: &str, ip: &str| with(service(name, ip), "/spec/ports", ports.clone());
    let with_node_port = |service| {
        let service = and(service, "/spec/ports/1", "nodePort", 30080);
        with(service, "/spec/type", "NodePort")
    };
    let over_udp = |name: &str, pod| {
        let udp = with(
            slice(name, "udp", &[ready(pod)]),
            "/ports/0/name",
            "http-udp",
        );
        and(udp, "/ports/0", "protocol", "UDP")
    };
    let Some(world) = World::with(&[], |server| {
        prepare(server);
        define_all(server);
        server.put(with_node_port(both("web", IP)));
        server.put(over_udp("web", addresses::POD_A));
        server.put(both("v1", "10.96.0.11"));
        server.put(over_udp("v1", addresses::POD_B));
        let to_v1 = [backend("v1", 1)];
        server.put(route(("UDPRoute", "v1"), "r", 1, "web", &to_v1));
    }) else {
        return;
    };
    let udp = Target::udp(format!("{IP}:80").parse().unwrap());
    world.await_pods(world.pod(), udp, &["pod-b"]);
    world.await_pods(world.pod(), tcp(IP, 80), &["pod-a"]);
    let node_port = std::net::SocketAddr::new(addresses::NODE, 30080);
    world.await_pods(world.sandbox.outside(), Target::udp(node_port), &["pod-a"]);
}
