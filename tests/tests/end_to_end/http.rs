//! The agent's answers over HTTP.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{HttpAnswer, PinDir, SocketPath, Transport, http_get, wait_until};

use crate::{
    command::shunt_at,
    service::Service,
    world::{World, binary, try_start_agent_with},
};

/// The flags of an agent that is asked.
pub(crate) const ASKED: [&str; 4] = [
    "--healthz-bind-address",
    "0.0.0.0",
    "--metrics-bind-address",
    "127.0.0.1",
];

/// Longer than the agent waits before it tries again.
const SOON: Duration = Duration::from_secs(10);

impl World {
    /// Asks from the node.
    pub(crate) fn get(&self, ip: impl Into<IpAddr>, port: u16, path: &str) -> HttpAnswer {
        let address = SocketAddr::new(ip.into(), port);
        let node = self.sandbox.node();
        node.enter(|| http_get(address, path, &[]).unwrap())
    }

    /// Returns the value of a metric; `series` is its name with its labels, as the agent writes them.
    pub(crate) fn metric(&self, series: &str) -> Option<f64> {
        let metrics = self.get(Ipv4Addr::LOCALHOST, 10_249, "/metrics").body;
        let mut lines = metrics.lines();
        lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
    }
}

fn body(answer: &HttpAnswer) -> Value {
    serde_json::from_str(&answer.body).unwrap()
}

#[test]
fn health_is_answered_over_both_families() {
    let Some(world) = World::with_flags(&ASKED) else {
        return;
    };
    for ip in [
        IpAddr::from(Ipv4Addr::LOCALHOST),
        Ipv6Addr::LOCALHOST.into(),
    ] {
        for (path, eligible) in [("/healthz", json!(true)), ("/livez", Value::Null)] {
            let answer = world.get(ip, 10_256, path);
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.header("content-type"), Some("application/json"));
            assert_eq!(answer.header("x-content-type-options"), Some("nosniff"));
            let report = body(&answer);
            assert_eq!(report["nodeEligible"], eligible);
            assert_eq!(report["healthy"], true);
            assert_eq!(report["lastUpdated"], report["currentTime"]);
            for family in ["IPv4", "IPv6"] {
                let of_family = &report["status"][family];
                assert_eq!(of_family["healthy"], true);
                let updated = of_family["lastUpdated"].as_str().unwrap();
                assert!(updated.starts_with("20"), "a Resync was applied: {updated}");
            }
        }
        assert_eq!(world.get(ip, 10_256, "/other").status, 404);
    }
    let answered = |name: &str| {
        let metrics = world.get(Ipv4Addr::LOCALHOST, 10_249, "/metrics").body;
        let line = format!("{name}{{code=\"200\"}} ");
        let value = metrics.lines().find_map(|found| found.strip_prefix(&line));
        value.unwrap().to_owned()
    };
    assert_eq!(answered("kubeproxy_proxy_healthz_total"), "2");
    assert_eq!(answered("kubeproxy_proxy_livez_total"), "2");
}

#[test]
fn the_metrics_address_answers_what_kube_proxys_does() {
    let Some(world) = World::with_flags(&ASKED) else {
        return;
    };
    let get = |path| world.get(Ipv4Addr::LOCALHOST, 10_249, path);
    let answer = get("/healthz");
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));
    let answer = get("/proxyMode");
    assert_eq!((answer.status, answer.body.as_str()), (200, "shunt"));
    assert_eq!(get("/configz").status, 200);
    assert!(body(&get("/configz")).is_object());
    assert_eq!(get("/").status, 404);
    let node = world.sandbox.node();
    let v6 = SocketAddr::new(Ipv6Addr::LOCALHOST.into(), 10_249);
    node.enter(|| http_get(v6, "/healthz", &[])).unwrap_err();
}

#[test]
fn a_killed_agent_answers_nothing_and_the_next_one_answers_again() {
    let Some(mut world) = World::with_flags(&ASKED) else {
        return;
    };
    // What is pinned translates until the next agent has heard of anything.
    world.add(&Service::new(Transport::Tcp).backend(world.backend("pod-a")));
    for _ in 0..3 {
        let next = |world: &World| {
            try_start_agent_with(&binary(), world.sandbox.node(), &world.pins, &ASKED).unwrap()
        };
        let node = world.sandbox.node();
        let health = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 10_256);
        assert_eq!(
            world.get(health.ip(), health.port(), "/healthz").status,
            200
        );
        // An agent ends before the one that takes its place starts.
        let pid = world.agent.pid();
        let kill = ["-9".to_owned(), pid.to_string()];
        node.run_with_input("kill", &kill, "").unwrap();
        wait_until("nobody answers", SOON, || {
            node.enter(|| http_get(health, "/healthz", &[])).err()
        })
        .unwrap();
        world.agent = next(&world);
    }
    assert_eq!(world.get(Ipv4Addr::LOCALHOST, 10_256, "/livez").status, 200);
}

#[test]
fn an_address_that_is_taken_is_shown_and_tried_again() {
    let Some(world) = World::new() else {
        return;
    };
    let node = world.sandbox.node();
    // As an earlier proxy has it, which is about to go.
    let holder = node.enter(|| TcpListener::bind("0.0.0.0:10256").unwrap());
    let pins = PinDir::new();
    let agent = try_start_agent_with(&binary(), node, &pins, &ASKED).unwrap();
    let listeners = || {
        let ran = shunt_at(agent.socket(), &["status", "-o", "json"], "");
        ran.json()["listeners"].as_array().unwrap().clone()
    };
    let shown = listeners();
    let [health, metrics] = &shown[..] else {
        panic!("two addresses, not {shown:?}");
    };
    assert_eq!(health["name"], "health");
    assert_eq!(health["address"], "0.0.0.0:10256");
    let problem = health["problem"].as_str().unwrap();
    assert!(problem.contains("Address already in use"), "{problem}");
    assert_eq!(metrics["name"], "metrics");
    assert_eq!(metrics["problem"], Value::Null);
    let table = shunt_at(agent.socket(), &["status"], "").clean();
    assert!(table.contains("Address already in use"), "{table}");
    assert!(
        agent.log().contains("it is tried again every 5 s"),
        "{}",
        agent.log()
    );

    drop(holder);
    wait_until("the address is had", SOON, || {
        (listeners()[0]["problem"] == Value::Null).then_some(())
    })
    .unwrap();
    assert_eq!(world.get(Ipv4Addr::LOCALHOST, 10_256, "/livez").status, 200);
}

#[test]
fn an_address_that_must_be_had_ends_the_agent_before_it_begins() {
    let Some(world) = World::new() else {
        return;
    };
    let node = world.sandbox.node();
    let _holder = node.enter(|| TcpListener::bind("0.0.0.0:10256").unwrap());
    let pins = PinDir::new();
    let socket = SocketPath::new();
    let flags = [
        &["agent", "--pin-dir", pins.path().to_str().unwrap()],
        &ASKED[..],
        &["--bind-address-hard-fail", "--socket-lb", "off"],
    ]
    .concat();
    let ran = node.enter(|| shunt_at(socket.path(), &flags, ""));
    assert_eq!(ran.status, 1, "{ran:?}");
    let expected = "error: health: cannot listen at 0.0.0.0:10256: Address already in use";
    assert!(ran.errors.contains(expected), "{}", ran.errors);
    assert!(!pins.path().exists(), "it must not have begun");
}
