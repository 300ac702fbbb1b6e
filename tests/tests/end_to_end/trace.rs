//! The trace of a packet by `shunt trace` is the packet's real outcome, and a trace changes nothing.

use std::{net::SocketAddr, time::Duration};

use serde_json::{Value, json};
use shunt_tests::{Continuous, Failure, Target, Transport, addresses};

use crate::{
    command::Ran,
    dsr_world::{self, A, CLIENT},
    dual_stack::Family,
    host_world::{HostWorld, service as named},
    service::Service,
    world::{REQUEST, World},
    xdp,
};

/// A port that no other connection of a test has.
const PORT: u16 = 41_234;

/// Time that a client waits for what is dropped.
const LITTLE: Duration = Duration::from_millis(300);

/// Output of a trace, as JSON.
pub(crate) struct Traced(pub(crate) Value);

impl Traced {
    #[track_caller]
    pub(crate) fn of(ran: &Ran) -> Self {
        assert_eq!((ran.status, ran.errors.as_str()), (0, ""), "{ran:?}");
        Self(ran.json())
    }

    pub(crate) fn steps(&self) -> &[Value] {
        self.0["steps"].as_array().unwrap()
    }

    /// The only step of this name, or the last one.
    #[track_caller]
    fn step(&self, name: &str) -> &Value {
        let found = self.steps().iter().rev().find(|step| step["step"] == name);
        found.unwrap_or_else(|| panic!("no step {name}: {:#}", self.0))
    }

    fn has(&self, name: &str) -> bool {
        self.steps().iter().any(|step| step["step"] == name)
    }

    #[track_caller]
    fn backend(&self) -> SocketAddr {
        address(&self.step("choice")["backend"])
    }

    fn counts(&self, counter: &str) -> bool {
        let mut steps = self.steps().iter();
        steps.any(|step| step["step"] == "counter" && step["name"] == counter)
    }

    #[track_caller]
    fn assert_end(&self, end: &str) {
        assert_eq!(self.0["end"], end, "{:#}", self.0);
    }
}

fn address(value: &Value) -> SocketAddr {
    value.as_str().unwrap().parse().unwrap()
}

fn to(target: Target, transport: Transport) -> String {
    let protocol = transport.to_string().to_lowercase();
    format!("{}/{protocol}", target.address())
}

fn asked(world: &World, from: &str, to: &str, further: &[&str]) -> Traced {
    let arguments = ["trace", "-o", "json", "--from", from, "--to", to];
    Traced::of(&world.shunt(&[&arguments, further].concat()))
}

fn counter(world: &World, name: &str) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["counters"][name].as_u64().unwrap()
}

#[test]
fn a_pods_packet_for_a_cluster_ip_goes_where_the_trace_says() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = World::new() else {
            return;
        };
        let service = Service::new(transport).backend(world.backend("pod-a"));
        world.add(&service);
        let target = service.cluster_ip();
        let from = format!("{}:{PORT}", addresses::POD_C);
        let traced = asked(&world, &from, &to(target, transport), &[]);
        traced.assert_end("leaves");
        assert_eq!(traced.step("frontend")["service"], "default/web");
        assert_eq!(traced.step("frontend")["kind"], "ClusterIP");
        assert_eq!(traced.step("source")["change"], "kept");
        assert!(traced.counts("connection"), "{:#}", traced.0);
        let answer = world
            .client_pod()
            .enter(|| target.from_port(PORT).ask(REQUEST).unwrap());
        assert_eq!(traced.backend(), answer.backend);
        assert_eq!(address(&traced.step("source")["source"]), answer.peer);

        // The set, and what many packets get of it, from ports that have no connection yet.
        world.update(&service.clone().weighted(world.backend("pod-b"), 3));
        let from = format!("{}:{}", addresses::POD_C, PORT + 1);
        let traced = asked(&world, &from, &to(target, transport), &["--count", "400"]);
        let shares: Vec<f64> = traced.step("set")["backends"]
            .as_array()
            .unwrap()
            .iter()
            .map(|member| member["share"].as_f64().unwrap())
            .collect();
        assert_eq!(shares, [0.25, 0.75], "{:#}", traced.0);
        let parts = traced.0["distribution"].as_array().unwrap();
        let first = parts[0]["packets"].as_u64().unwrap();
        assert_eq!(address(&parts[0]["backend"]), world.backend("pod-b"));
        assert!((250..350).contains(&first), "{first} of 400, not about 300");
    }
}

#[test]
fn a_connection_that_is_open_goes_on_as_the_trace_says() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = ["pod-a", "pod-b", "pod-d"]
        .into_iter()
        .fold(Service::new(Transport::Tcp), |service, pod| {
            service.backend(world.backend(pod))
        });
    world.add(&service);
    let target = service.node_port();
    let mut connection = world
        .sandbox
        .outside()
        .enter(|| target.from_port(PORT).connect().unwrap());
    let answer = connection.echo(REQUEST).unwrap();
    let from = format!("{}:{PORT}", addresses::OUTSIDE);
    let traced = asked(
        &world,
        &from,
        &to(target, Transport::Tcp),
        &["--flags", "ack"],
    );
    let step = traced.step("connection");
    assert_eq!(address(&step["backend"]), answer.backend);
    assert_eq!(address(&step["source"]), answer.peer);
    assert_eq!(step["state"], "ESTABLISHED");
    assert!(
        !traced.has("choice") && traced.counts("request"),
        "{:#}",
        traced.0
    );

    // And the backend's packet.
    let (backend, peer) = (answer.backend, answer.peer);
    let traced = asked(
        &world,
        &backend.to_string(),
        &format!("{peer}/tcp"),
        &["--flags", "ack"],
    );
    assert_eq!(
        traced.step("connection")["is_reply"],
        true,
        "{:#}",
        traced.0
    );
    assert_eq!(connection.echo(REQUEST).unwrap().backend, backend);
}

#[test]
fn a_client_outside_goes_on_from_this_node_as_the_trace_says() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    world.add(&service);
    let target = service.node_port();
    let from = format!("{}:{PORT}", addresses::OUTSIDE);
    let traced = asked(&world, &from, &to(target, Transport::Tcp), &[]);
    let source = traced.step("source");
    assert_eq!(source["change"], "snat", "{:#}", traced.0);
    assert_eq!(address(&source["source"]).ip(), addresses::NODE);
    assert_eq!(traced.step("frontend")["kind"], "NodePort");
    traced.assert_end("leaves");
    let answer = world
        .sandbox
        .outside()
        .enter(|| target.from_port(PORT).ask(REQUEST).unwrap());
    assert_eq!(answer.backend, traced.backend());
    assert_eq!(answer.peer.ip(), addresses::NODE);
}

#[test]
fn what_is_refused_or_dropped_is_told_with_its_counter() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp);
    world.add(&service);
    let from = addresses::OUTSIDE.to_string();
    let target = service.node_port();
    let to = to(target, Transport::Tcp);
    let traced = asked(&world, &from, &to, &[]);
    traced.assert_end("rejected");
    assert!(traced.counts("reject_no_backend"), "{:#}", traced.0);
    let before = counter(&world, "reject_no_backend");
    let refused = world.sandbox.outside().enter(|| target.connect());
    assert!(matches!(refused, Err(Failure::Refused)), "{refused:?}");
    assert!(counter(&world, "reject_no_backend") > before);

    let mut local = service.clone().backend(world.backend("pod-d")).json();
    local["traffic_policy"] = json!("Local");
    let event = json!({ "event": "UpdateService", "service": local });
    world.apply(&event.to_string());
    let traced = asked(&world, &from, &to, &[]);
    traced.assert_end("dropped");
    assert!(traced.counts("drop_no_backend"), "{:#}", traced.0);
    assert_eq!(traced.step("set")["set"], "local");
    let before = counter(&world, "drop_no_backend");
    let silence = world
        .sandbox
        .outside()
        .enter(|| target.within(LITTLE).connect());
    assert!(silence.is_err(), "{silence:?}");
    assert!(counter(&world, "drop_no_backend") > before);

    // A pod of this node is served all the same.
    let traced = asked(&world, &addresses::POD_C.to_string(), &to, &[]);
    assert_eq!(traced.backend(), world.backend("pod-d"));
}

#[test]
fn a_refusal_is_traced_as_one_while_others_are_refused() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp);
    world.add(&service);
    let target = service.node_port();
    let refused = Continuous::start(world.sandbox.outside(), target, REQUEST);
    let from = addresses::OUTSIDE.to_string();
    for _ in 0..5 {
        let traced = asked(&world, &from, &to(target, Transport::Tcp), &[]);
        traced.assert_end("rejected");
    }
    drop(refused);
}

#[test]
fn an_address_that_is_no_services_is_told_to_pass() {
    let Some(world) = World::new() else {
        return;
    };
    let target = world.backend("pod-a");
    let traced = asked(
        &world,
        &addresses::POD_C.to_string(),
        &format!("{target}/udp"),
        &[],
    );
    assert!(traced.has("no_frontend"), "{:#}", traced.0);
    assert!(!traced.has("counter"), "{:#}", traced.0);
    traced.assert_end("leaves");
    let text = world
        .shunt(&[
            "trace",
            "--from",
            "10.1.1.5",
            "--to",
            &format!("{target}/udp"),
        ])
        .clean();
    assert!(text.contains("is no service's"), "{text}");

    for (arguments, status, words) in [
        (
            ["--from", "fd00::1", "--to", "10.96.0.10:80"],
            1,
            "of different families",
        ),
        (
            ["--from", "10.1.1.5", "--to", "10.96.0.10"],
            2,
            "an address with a port",
        ),
        (
            ["--from", "10.1.1", "--to", "10.96.0.10:80"],
            2,
            "an address belongs there",
        ),
    ] {
        let ran = world.shunt(&[&["trace"], &arguments[..]].concat());
        assert_eq!(ran.status, status, "{ran:?}");
        assert!(ran.errors.contains(words), "{ran:?}");
    }
    let nowhere = world.shunt(&[
        "trace",
        "--from",
        "10.1.1.5",
        "--to",
        "10.96.0.10:80",
        "--interface",
        "nowhere",
    ]);
    assert_eq!(nowhere.status, 1, "{nowhere:?}");
    assert!(
        nowhere.errors.contains("no interface nowhere"),
        "{nowhere:?}"
    );
}

#[test]
fn a_split_is_told_with_its_shares() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [old, new] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let mut web = named("web", "10.96.0.10", &[old]);
    let share = |name: &str, weight: u32| json!({ "service": { "namespace": "default", "name": name }, "port": 80, "weight": weight });
    web["splits"] = json!({
        "tcp": { "mode": "strict", "backends": [share("web", 90), share("canary", 10)] },
    });
    for service in [named("canary", "10.96.0.11", &[new]), web] {
        let event = json!({ "event": "UpdateService", "service": service });
        world.apply(&event.to_string());
    }
    let traced = asked(&world, "10.1.1.5", "10.96.0.10:80", &["--count", "300"]);
    let split = &traced.step("frontend")["split"];
    assert_eq!(
        *split,
        json!([["default/web:80", 90], ["default/canary:80", 10]])
    );
    let members = traced.step("set")["backends"].as_array().unwrap();
    let shares: Vec<_> = members
        .iter()
        .map(|member| {
            (
                address(&member["address"]),
                (member["share"].as_f64().unwrap() * 100.0).round() as u32,
            )
        })
        .collect();
    assert!(
        shares.contains(&(old, 90)) && shares.contains(&(new, 10)),
        "{shares:?}"
    );
    let parts = traced.0["distribution"].as_array().unwrap();
    assert_eq!(parts.len(), 2, "{parts:?}");
}

#[test]
fn a_process_of_the_node_is_told_where_its_socket_goes() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let service = host.serve(Transport::Tcp);
    let local = Service::new(Transport::Tcp).backend(host.world.backend("pod-a"));
    host.world.update(&local);
    let target = service.cluster_ip();
    let traced = asked(
        &host.world,
        &addresses::NODE.to_string(),
        &to(target, Transport::Tcp),
        &[],
    );
    assert_eq!(traced.steps()[0]["hook"], "connect", "{:#}", traced.0);
    assert!(traced.counts("socket_connect"), "{:#}", traced.0);
    let said = host.ask("tcp", target.address());
    assert!(said.is_ok(), "{said:?}");
    assert_eq!(
        address(&traced.step("socket")["to"]),
        host.world.backend("pod-a")
    );
    assert_eq!(host.count("socket_connect"), 1, "the trace counts nothing");

    host.world.update(&Service::new(Transport::Tcp));
    let traced = asked(
        &host.world,
        &addresses::NODE.to_string(),
        &to(target, Transport::Tcp),
        &[],
    );
    traced.assert_end("fails");
    assert!(traced.counts("socket_reject"), "{:#}", traced.0);
}

#[test]
fn a_packet_in_an_envelope_goes_to_the_node_that_the_trace_says() {
    for mode in ["off", "native"] {
        let Some(world) = dsr_world::World::new(Transport::Tcp, "dsr", mode) else {
            return;
        };
        let target = world.target(Family::V4);
        // The first ones find the next hops.
        let ask = |port| {
            world
                .client
                .enter(|| target.from_port(port).ask(REQUEST).unwrap())
        };
        ask(PORT - 1);
        for port in PORT..PORT + 6 {
            let from = format!("{CLIENT}:{port}");
            let to = target.address().to_string();
            let ran = world.shunt(A, &["trace", "-o", "json", "--from", &from, "--to", &to]);
            let traced = Traced::of(&ran);
            assert_eq!(traced.step("choice")["how"], "maglev", "{:#}", traced.0);
            assert_eq!(traced.step("frontend")["is_dsr"], true);
            assert!(
                traced.has("envelope") && traced.counts("wrapped"),
                "{:#}",
                traced.0
            );
            let hook = if mode == "off" { "ingress" } else { "xdp" };
            assert_eq!(traced.steps()[0]["hook"], hook, "{:#}", traced.0);
            assert_eq!(ask(port).backend, traced.backend(), "from port {port}");
        }
    }
}

#[test]
fn a_packet_that_the_driver_forwards_is_told_to_go_no_further() {
    let Some((world, service)) = xdp::world("native", Transport::Tcp) else {
        return;
    };
    let target = service.node_port();
    let outside = world.sandbox.outside();
    outside.enter(|| target.ask(REQUEST).unwrap());
    let from = format!("{}:{PORT}", addresses::OUTSIDE);
    let traced = asked(&world, &from, &to(target, Transport::Tcp), &[]);
    assert_eq!(traced.steps()[0]["hook"], "xdp", "{:#}", traced.0);
    assert!(traced.counts("xdp"), "{:#}", traced.0);
    assert_eq!(traced.step("source")["change"], "snat");
    let before = counter(&world, "xdp");
    let answer = outside.enter(|| target.from_port(PORT).ask(REQUEST).unwrap());
    assert_eq!(answer.backend, traced.backend());
    assert!(counter(&world, "xdp") > before);
}
