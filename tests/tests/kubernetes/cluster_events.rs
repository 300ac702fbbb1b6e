//! Messages to users of the cluster: Kubernetes Events.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{ApiServer, Faults, Namespace, addresses, http_get, wait_until};

use crate::{
    objects::{and, node, ready, service, slice, with},
    world::{SOON, World, kill, tcp},
};

/// An address that two Services want.
const EXTERNAL: &str = "203.0.113.7";

const HEALTH_CHECK: u16 = 32_000;

fn with_external_ip(name: &str, cluster_ip: &str) -> Value {
    and(
        service(name, cluster_ip),
        "/spec",
        "externalIPs",
        json!([EXTERNAL]),
    )
}

/// A Service whose health check is asked for at this port of the node.
fn with_health_check(name: &str, cluster_ip: &str) -> Value {
    let balanced = with(service(name, cluster_ip), "/spec/type", "LoadBalancer");
    let local = and(balanced, "/spec", "externalTrafficPolicy", "Local");
    and(local, "/spec", "healthCheckNodePort", HEALTH_CHECK)
}

/// The Events as far as tests look: of which Service, why, the other Service, the note, and how often.
fn told(server: &ApiServer) -> Vec<[String; 5]> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut told: Vec<_> = server
        .events()
        .iter()
        .map(|event| {
            assert_eq!(event["type"], "Warning");
            assert_eq!(event["reportingController"], "shunt");
            assert_eq!(event["reportingInstance"], "node-1");
            let regarding = &event["regarding"];
            assert_eq!(regarding["kind"], "Service");
            let name = text(&regarding["name"]);
            assert_eq!(regarding["uid"], format!("uid-{name}"));
            [
                name,
                text(&event["reason"]),
                text(&event["related"]["name"]),
                text(&event["note"]),
                event["series"]["count"].to_string(),
            ]
        })
        .collect();
    told.sort();
    told
}

#[track_caller]
fn await_told(server: &ApiServer, what: &str, is_right: impl Fn(&[[String; 5]]) -> bool) {
    let found = wait_until(what, SOON, || is_right(&told(server)).then_some(()));
    found.unwrap_or_else(|error| panic!("{error}: {:#?}", told(server)));
}

/// A counter of the agent's.
fn counter(node: &Namespace, series: &str) -> f64 {
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 10_249);
    let answer = node.enter(|| http_get(at, "/metrics", &[]).unwrap());
    let mut lines = answer.body.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '));
    value
        .unwrap_or_else(|| panic!("no {series}"))
        .parse()
        .unwrap()
}

/// One that was created later.
fn younger(name: &str, ip: &str) -> Value {
    let service = with_external_ip(name, ip);
    with(
        service,
        "/metadata/creationTimestamp",
        "2026-01-02T00:00:00Z",
    )
}

#[test]
fn the_older_service_has_what_two_claim_whichever_is_told_first() {
    let Some(world) = World::new() else {
        return;
    };
    let server = &world.server;
    server.put(younger("young", "10.96.0.10"));
    server.put(slice("young", "4", &[ready(addresses::POD_A)]));
    let external = tcp(EXTERNAL, 80);
    world.await_pods(world.pod(), external, &["pod-a"]);
    server.put(with_external_ip("old", "10.96.0.11"));
    server.put(slice("old", "4", &[ready(addresses::POD_B)]));
    world.await_pods(world.pod(), external, &["pod-b"]);
    await_told(
        server,
        "the younger is told",
        |told| matches!(told, [[young, _, old, ..]] if young == "young" && old == "old"),
    );
    server.delete(&with_external_ip("old", "10.96.0.11"));
    world.await_pods(world.pod(), external, &["pod-a"]);
}

#[test]
fn users_are_told_once_of_a_conflict_a_health_check_and_a_refused_endpoint() {
    let Some(world) = World::new() else {
        return;
    };
    let server = &world.server;
    let at = SocketAddr::new(addresses::NODE, HEALTH_CHECK);
    let taken = world
        .sandbox
        .node()
        .enter(|| TcpListener::bind(at).unwrap());
    server.put(with_external_ip("old", "10.96.0.10"));
    server.put(slice("old", "4", &[ready(addresses::POD_A)]));
    world.await_pods(world.pod(), tcp(EXTERNAL, 80), &["pod-a"]);

    server.put(younger("new", "10.96.0.11"));
    server.put(with_health_check("checked", "10.96.0.12"));
    server.put(service("refused", "10.96.0.13"));
    let loopback = Ipv4Addr::LOCALHOST.into();
    let pods = |further| [ready(loopback), ready(further)];
    server.put(slice("refused", "4", &pods(addresses::POD_A)));
    let expected = [
        [
            "checked",
            "FailedToStartServiceHealthcheck",
            "",
            "node node-1 failed to start healthcheck \"default/checked\": cannot listen at \
             192.168.16.10:32000: Address already in use (os error 98)",
            "null",
        ],
        [
            "new",
            "FrontendConflict",
            "old",
            "served by Service default/old, which is older: 203.0.113.7:80/TCP",
            "null",
        ],
        [
            "refused",
            "EndpointRefused",
            "",
            "endpoints[].addresses[0]: 127.0.0.1 is a loopback address, which cannot be used here",
            "null",
        ],
    ]
    .map(|told| told.map(str::to_owned));
    await_told(server, "users are told", |told| told == expected);

    // What stays as it is, whatever else changes, is not reported again.
    server.put(slice("new", "4", &[ready(addresses::POD_B)]));
    server.put(slice("old", "4", &[ready(addresses::POD_B)]));
    server.put(slice("refused", "4", &pods(addresses::POD_B)));
    world.await_pods(world.pod(), tcp(EXTERNAL, 80), &["pod-b"]);
    world.await_pods(world.pod(), tcp("10.96.0.13", 80), &["pod-b"]);
    drop(taken);
    wait_until("the health check answers", SOON, || {
        world.sandbox.node().enter(|| http_get(at, "/", &[])).ok()
    })
    .unwrap();
    assert_eq!(told(server), expected);

    // What comes back within minutes is counted in the Event that is there.
    server.delete(&with_external_ip("new", "10.96.0.11"));
    wait_until("the conflict is over", SOON, || {
        let status = world.shunt("status");
        (status["conflicts"] == json!([])).then_some(())
    })
    .unwrap();
    server.put(younger("new", "10.96.0.11"));
    await_told(server, "it is counted", |told| {
        told.len() == 3 && told[1][4] == "2"
    });
    // The server has an Event before the agent has the answer.
    let node = world.sandbox.node();
    wait_until("all are published", SOON, || {
        let published = counter(node, "shunt_kubernetes_events_total{result=\"published\"}");
        ((published - 4.0).abs() < f64::EPSILON).then_some(())
    })
    .unwrap();
}

#[test]
fn an_event_that_the_cluster_has_is_not_made_by_another_agent() {
    let Some(world) = World::new() else {
        return;
    };
    let put = |server: &ApiServer| {
        server.put(service("refused", "10.96.0.13"));
        let pods = [ready(Ipv4Addr::LOCALHOST.into()), ready(addresses::POD_A)];
        server.put(slice("refused", "4", &pods));
    };
    put(&world.server);
    await_told(&world.server, "a user is told", |told| told.len() == 1);
    let before = told(&world.server);
    let world = world.restart(kill, |_, _| {});
    world.await_pods(world.pod(), tcp("10.96.0.13", 80), &["pod-a"]);
    wait_until("the next agent has nothing to add", SOON, || {
        let series = "shunt_kubernetes_events_total{result=\"published\"}";
        let published = counter(world.sandbox.node(), series);
        ((published - 1.0).abs() < f64::EPSILON).then_some(())
    })
    .unwrap();
    assert_eq!(told(&world.server), before);
}

#[test]
fn events_that_the_server_does_not_take_are_in_nobodys_way() {
    let Some(world) = World::with(&[], |server| {
        server.put(node("node-1", addresses::NODE));
        server.set_faults(Faults {
            events: Some(403),
            ..Faults::default()
        });
        for number in 0..100 {
            let (name, ip) = (format!("s{number}"), format!("10.96.1.{number}"));
            server.put(with_external_ip(&name, &ip));
            server.put(slice(&name, "4", &[ready(addresses::POD_A)]));
        }
    }) else {
        return;
    };
    world.await_pods(world.pod(), tcp("10.96.1.99", 80), &["pod-a"]);
    let series = |result: &str| {
        let series = format!("shunt_kubernetes_events_total{{result=\"{result}\"}}");
        counter(world.sandbox.node(), &series)
    };
    wait_until("all are given up", SOON, || {
        (series("failed") + series("dropped") > 98.5).then_some(())
    })
    .unwrap();
    assert!(
        series("dropped") > 70.0,
        "an agent makes no more than 25 at once"
    );
    assert_eq!(world.server.events(), [] as [Value; 0]);
    let log = world.agent.log();
    assert_eq!(log.matches("Events cannot be made").count(), 1, "{log}");
    // The next one is tried, ten seconds after the last: until then each is dropped.
    world.server.set_faults(Faults::default());
    let mut number = 0_u8;
    wait_until("users are told again", Duration::from_secs(30), || {
        number = number.wrapping_add(1);
        let loopback = Ipv4Addr::new(127, 0, 0, number).into();
        world.server.put(slice("s1", "4", &[ready(loopback)]));
        let told = told(&world.server);
        let is_told = told.iter().any(|told| told[1] == "EndpointRefused");
        is_told.then_some(())
    })
    .unwrap();
}
