//! Health checks of Services, and how long changes take to get here, as load balancers and monitoring
//! see them.

use std::{
    collections::BTreeSet,
    fs,
    net::{Ipv4Addr, SocketAddr},
    path::Path,
};

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use shunt_tests::{HttpAnswer, Namespace, addresses, agent_binary, http_get, run, wait_until};

use crate::{
    objects::{and, node, ready, service, slice, terminating, with},
    world::{SOON, World, tcp},
};

const IP: &str = "10.96.0.10";
const PORT: u16 = 32_100;

/// A Service whose external traffic stays on the node that it comes to.
pub(crate) fn balanced() -> Value {
    let ports = json!([{ "name": "http", "port": 80, "nodePort": 30_080 }]);
    let web = with(service("web", IP), "/spec/ports", ports);
    let web = with(web, "/spec/type", "LoadBalancer");
    let web = and(web, "/spec", "externalTrafficPolicy", "Local");
    and(web, "/spec", "healthCheckNodePort", PORT)
}

fn ask(from: &Namespace, path: &str) -> Option<HttpAnswer> {
    let at = SocketAddr::new(addresses::NODE, PORT);
    from.enter(|| http_get(at, path, &[])).ok()
}

#[track_caller]
pub(crate) fn await_answer(from: &Namespace, status: u16, local_endpoints: u32) {
    let mut last = None;
    let found = wait_until("the health check is right", SOON, || {
        last = ask(from, "/any/path");
        let answer = last.as_ref()?;
        (answer.status == status && answer.body.contains("ocalEndpoints")).then_some(())?;
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        let expected = json!({
            "service": { "namespace": "default", "name": "web" },
            "localEndpoints": local_endpoints,
            "serviceProxyHealthy": true,
        });
        let weight = answer.header("x-load-balancing-endpoint-weight");
        (body == expected && weight == Some(&local_endpoints.to_string())).then_some(())
    });
    found.unwrap_or_else(|error| panic!("{error}: {last:?}, not {status}, {local_endpoints}"));
}

#[test]
fn a_health_check_follows_the_endpoints_of_this_node() {
    let Some(world) = World::new() else {
        return;
    };
    let outside = world.sandbox.outside();
    assert_eq!(
        ask(outside, "/"),
        None,
        "nobody listens before there is a Service"
    );
    world.server.put(balanced());
    await_answer(outside, 503, 0);
    let [a, b, d] = [addresses::POD_A, addresses::POD_B, addresses::POD_D];
    for (endpoints, status, local) in [
        (vec![ready(a)], 200, 1),
        (vec![ready(a), ready(b), ready(d)], 200, 2),
        (vec![terminating(a), ready(d)], 503, 0),
        (vec![ready(b)], 200, 1),
        (vec![], 503, 0),
    ] {
        world.server.put(slice("web", "4", &endpoints));
        await_answer(outside, status, local);
        await_answer(world.sandbox.node(), status, local);
    }
    // One answer for both families: an endpoint of each is two.
    world.server.put(slice("web", "4", &[ready(a)]));
    world
        .server
        .put(slice("web", "6", &[ready(addresses::v6(a))]));
    await_answer(outside, 200, 2);
    // Policy Cluster has none.
    let cluster = with(balanced(), "/spec/externalTrafficPolicy", "Cluster");
    world.server.put(cluster);
    wait_until("nobody listens any more", SOON, || {
        ask(outside, "/").is_none().then_some(())
    })
    .unwrap();
    world.server.put(balanced());
    await_answer(outside, 200, 2);
    world.server.delete(&balanced());
    wait_until("nobody listens any more", SOON, || {
        ask(outside, "/").is_none().then_some(())
    })
    .unwrap();
}

#[test]
fn a_removal_that_waits_for_a_decision_fails_no_health_check() {
    let started = World::with(&["--max-removal", "10"], |server| {
        server.put(node("node-1", addresses::NODE));
        server.put(balanced());
        server.put(slice("web", "4", &[ready(addresses::POD_A)]));
    });
    let Some(world) = started else {
        return;
    };
    let outside = world.sandbox.outside();
    await_answer(outside, 200, 1);
    world.server.delete(&balanced());
    let held = wait_until("the removal waits", SOON, || {
        let held = world.shunt("status")["held_removal"].clone();
        (!held.is_null()).then_some(held)
    });
    let number = held.unwrap()["number"].to_string();
    await_answer(outside, 200, 1);
    let socket = world.agent.socket().to_str().unwrap();
    let binary = agent_binary();
    let discard = ["discard", &number, "--socket", socket];
    run(binary.to_str().unwrap(), &discard).unwrap();
    await_answer(outside, 200, 1);
}

/// Flag for the address of kubelet's probes, on the default port.
pub(crate) const PROBED: [&str; 2] = ["--probe-bind-address", "127.0.0.1"];

/// The status with which kubelet's probe is answered, if it is.
pub(crate) fn probe(world: &World, path: &str) -> Option<u16> {
    status(world, 10_268, path)
}

fn status(world: &World, port: u16, path: &str) -> Option<u16> {
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), port);
    let answer = world.sandbox.node().enter(|| http_get(at, path, &[]));
    answer.ok().map(|answer| answer.status)
}

/// Load balancers leave a node that its autoscaler is about to remove; its agent is as ready as the others.
#[test]
fn a_node_that_leaves_has_an_agent_that_is_ready() {
    let started = World::with(&PROBED, |server| {
        server.put(node("node-1", addresses::NODE));
    });
    let Some(world) = started else {
        return;
    };
    let healthz = |wanted: u16| {
        wait_until("health is answered so", SOON, || {
            status(&world, 10_256, "/healthz").filter(|status| *status == wanted)
        })
        .unwrap()
    };
    healthz(200);
    assert_eq!(probe(&world, "/readyz"), Some(200));
    let taint = json!({ "key": "ToBeDeletedByClusterAutoscaler", "effect": "NoSchedule" });
    let spec = json!({ "taints": [taint] });
    let leaving = and(node("node-1", addresses::NODE), "", "spec", spec);
    world.server.put(leaving);
    healthz(503);
    for path in ["/livez", "/readyz"] {
        assert_eq!(probe(&world, path), Some(200), "{path}");
    }
}

/// Returns the agent's metrics.
fn metrics(world: &World) -> String {
    let at = SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 10_249);
    let node = world.sandbox.node();
    node.enter(|| http_get(at, "/metrics", &[]).unwrap()).body
}

fn value(metrics: &str, series: &str) -> Option<f64> {
    let mut lines = metrics.lines();
    let value = lines.find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))?;
    value.parse().ok()
}

/// A slice that was changed at this time.
fn changed(slice: Value, at: Timestamp) -> Value {
    const TRIGGER: &str = "endpoints.kubernetes.io/last-change-trigger-time";
    let annotations = json!({ TRIGGER: at.to_string() });
    and(slice, "/metadata", "annotations", annotations)
}

#[test]
fn the_way_of_a_change_is_timed_from_its_trigger_on() {
    let Some(world) = World::new() else {
        return;
    };
    let name = "kubeproxy_network_programming_duration_seconds";
    let series = |part: &str| format!("{name}_{part}{{ip_family=\"IPv4\"}}");
    // What the first lists have is no change.
    world.await_source("all is listed", |source| source["synced"] == true);
    let now = Timestamp::now();
    world.server.put(service("web", IP));
    let pods = |pod| slice("web", "4", &[ready(pod)]);
    let steps = [
        (addresses::POD_A, now, 1.0),
        // The same change, sent with another one.
        (addresses::POD_B, now, 1.0),
        (addresses::POD_A, Timestamp::now(), 2.0),
        // From before the agent's start.
        (addresses::POD_B, Timestamp::UNIX_EPOCH, 2.0),
    ];
    for (number, (pod, at, expected)) in steps.into_iter().enumerate() {
        let server = if pod == addresses::POD_A {
            "pod-a"
        } else {
            "pod-b"
        };
        world.server.put(changed(pods(pod), at));
        world.await_pods(world.pod(), tcp(IP, 80), &[server]);
        // The agent notes it after the first packet may have gone the new way.
        let what = format!("{expected} changes are timed at step {number}");
        wait_until(&what, SOON, || {
            (value(&metrics(&world), &series("count")) == Some(expected)).then_some(())
        })
        .unwrap();
    }
    let sum = value(&metrics(&world), &series("sum")).unwrap();
    let limit = SOON.as_secs_f64() * 2.0;
    assert!(sum > 0.0 && sum < limit, "{sum} s for two changes");
}

#[test]
fn requests_to_the_server_are_counted_with_client_gos_names() {
    let Some(world) = World::new() else {
        return;
    };
    world.server.put(service("web", IP));
    world.await_source("it is there", |source| source["services"] == 1);
    let host = world.server.address();
    let labels = format!("code=\"200\",method=\"GET\",host=\"{host}\"");
    let series = format!("rest_client_requests_total{{{labels}}}");
    // A list and a watch of each of four kinds. The watches begin after the lists.
    let (shown, requests) = wait_until("all is watched", SOON, || {
        let shown = metrics(&world);
        let requests = value(&shown, &series).filter(|requests| *requests >= 8.0)?;
        Some((shown, Some(requests)))
    })
    .unwrap();
    let labels = format!("verb=\"GET\",host=\"{host}\"");
    let name = "rest_client_request_duration_seconds";
    let lists = value(&shown, &format!("{name}_count{{{labels}}}"));
    assert!(lists >= Some(4.0) && lists < requests, "{lists:?}");

    // They are documented with the labels that they have.
    let document = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/metrics.md");
    let document = fs::read_to_string(document).unwrap();
    let rows = document.lines().filter_map(|line| {
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let [_, name, kind, labels, ..] = cells[..] else {
            return None;
        };
        name.starts_with("rest_client_")
            .then(|| format!("{name} {kind} {labels}"))
    });
    let types = shown.lines().filter_map(|line| {
        let (name, kind) = line.strip_prefix("# TYPE ")?.split_once(' ')?;
        let labels = match kind {
            "counter" => "code, method, host",
            _ => "verb, host",
        };
        name.starts_with("rest_client_")
            .then(|| format!("{name} {kind} {labels}"))
    });
    assert_eq!(
        rows.collect::<BTreeSet<_>>(),
        types.collect::<BTreeSet<_>>()
    );
}
