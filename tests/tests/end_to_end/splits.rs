//! A service that shares its connections out: a canary under load, over a restart, and for processes of
//! the node.

use std::net::SocketAddr;

use serde_json::{Value, json};
use shunt_tests::{Connection, Flow, Tally, Target, Transport};

use crate::{
    host_world::{HostWorld, service},
    world::{REQUEST, World, resync_with},
};

const CONNECTIONS: u32 = 2_000;
const WEB: &str = "10.96.0.10";
const CANARY: &str = "10.96.0.11";

/// Limit of a share's deviation, in standard deviations: exceeded by chance in one of 2.6 * 10^7 runs.
const DEVIATIONS: f64 = 5.5;

/// `web` with this split among services of its namespace, by their weights.
fn web(mode: &str, weights: &[(&str, u32)], backends: &[SocketAddr]) -> Value {
    let named = weights.iter().map(|(name, weight)| {
        json!({
            "service": { "namespace": "default", "name": name },
            "port": 80,
            "weight": weight,
        })
    });
    let split = json!({ "mode": mode, "backends": named.collect::<Vec<_>>() });
    let mut web = service("web", WEB, backends);
    web["splits"] = json!({ "tcp": split, "udp": split });
    web
}

fn update(world: &mut World, service: &Value) {
    let event = json!({ "event": "UpdateService", "service": service });
    world.apply(&event.to_string());
}

fn target(transport: Transport) -> Target {
    Target::new(transport, SocketAddr::new(WEB.parse().unwrap(), 80))
}

#[track_caller]
fn assert_share(observed: u64, share: f64) {
    let connections = f64::from(CONNECTIONS);
    let expected = connections * share;
    let bound = DEVIATIONS * (connections * share * (1.0 - share)).sqrt();
    let got = f64::from(u32::try_from(observed).unwrap());
    assert!(
        (got - expected).abs() <= bound,
        "{got} of {CONNECTIONS}, and not {expected}, give or take {bound:.0}"
    );
}

#[test]
fn a_canary_gets_its_share_at_once_and_no_open_connection_moves() {
    let Some(mut world) = World::new() else {
        return;
    };
    let [old, new] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    update(&mut world, &service("web-canary", CANARY, &[new]));
    let mut open: Vec<(Connection, Flow, [SocketAddr; 2])> = Vec::new();
    // Datagrams from the ports of a phase before would be of its flows.
    for (of_old, of_new, ports) in [
        (100, 0, 20_000..22_000),
        (90, 10, 22_000..24_000),
        (0, 100, 24_000..26_000),
    ] {
        let weights = [("web", of_old), ("web-canary", of_new)];
        update(&mut world, &web("strict", &weights, &[old]));
        let over_tcp = world.ask_from_pod(target(Transport::Tcp), CONNECTIONS);
        let over_udp: Tally = world.client_pod().enter(|| {
            let from = |port| target(Transport::Udp).from_port(port).ask(REQUEST);
            ports.map(from).collect()
        });
        for tally in [over_tcp, over_udp] {
            assert_share(tally.of(new), f64::from(of_new) / 100.0);
            assert_eq!(
                tally.of(old) + tally.of(new),
                u64::from(CONNECTIONS),
                "{tally:#?}"
            );
        }
        for (connection, flow, backends) in &mut open {
            let now = [connection.echo(REQUEST), flow.ask(REQUEST)];
            let now = now.map(|answer| answer.unwrap().backend);
            assert_eq!(now, *backends, "open connections at {of_old}:{of_new}");
        }
        open.push(world.client_pod().enter(|| {
            let mut connection = target(Transport::Tcp).connect().unwrap();
            let flow = target(Transport::Udp).flow().unwrap();
            let answers = [connection.echo(REQUEST), flow.ask(REQUEST)];
            let backends = answers.map(|answer| answer.unwrap().backend);
            (connection, flow, backends)
        }));
    }
    assert_eq!(open[0].2, [old; 2], "opened at 100:0");
    assert_eq!(open[2].2, [new; 2], "opened at 0:100");
}

#[test]
fn the_next_agent_finds_a_split_as_it_is_to_be() {
    let flags = ["--reject-rate", "0"];
    let Some(mut world) = World::with_flags(&flags) else {
        return;
    };
    let [old, new] = ["pod-a", "pod-b"].map(|pod| world.backend(pod));
    let services = [
        service("web-canary", CANARY, &[new]),
        web(
            "strict",
            &[("web", 2), ("web-canary", 1), ("gone", 1)],
            &[old],
        ),
    ];
    let snapshot = resync_with(&services);
    assert!(world.writes(&snapshot) > 0);
    let mut world = world.killed().start(&flags);
    assert_eq!(world.writes(&snapshot), 0, "everything was right already");

    let ran = world.shunt(&["services", "-o", "json"]);
    assert_eq!((ran.status, ran.errors.as_str()), (0, ""), "no difference");
    let shown = ran.json();
    let mut shown = shown.as_array().unwrap().iter();
    let shown = shown
        .find(|row| row["address"] == WEB && row["protocol"] == "TCP")
        .unwrap();
    assert_eq!(shown["split"]["mode"], "strict");
    assert_eq!(
        shown["split"]["backends"][1],
        json!({ "service": "default/web-canary", "port": 80, "weight": 1 })
    );
    let parts = [
        &shown["backends"][0]["weight"],
        &shown["backends"][1]["weight"],
        &shown["split"]["refused"],
    ];
    for (part, share) in parts.into_iter().zip([0.5, 0.25, 0.25]) {
        let part = part.as_f64().unwrap() / f64::from(u32::MAX);
        assert!((part - share).abs() < 1e-6, "{shown:#}");
    }
    let table = world.shunt(&["services", "-o", "wide"]).output;
    for text in ["50.00%", "25.00%", "refused", "strict", "default/gone:80"] {
        assert!(table.contains(text), "{text} is not in {table}");
    }

    let tally: Tally = world.client_pod().enter(|| {
        (0..CONNECTIONS)
            .map(|_| target(Transport::Tcp).ask(REQUEST))
            .collect()
    });
    assert_share(tally.of(old), 0.5);
    assert_share(tally.of(new), 0.25);
    assert_share(tally.failed(), 0.25);
    let failures: Vec<_> = tally.failures.keys().collect();
    assert!(
        failures.len() == 1 && failures[0].contains("refused"),
        "refused at once: {failures:?}"
    );
}

#[test]
fn a_process_of_the_node_is_refused_its_share_at_the_socket() {
    let Some(mut host) = HostWorld::new("host") else {
        return;
    };
    let old = host.world.backend("pod-a");
    let services = [web("strict", &[("web", 1), ("gone", 1)], &[old])];
    host.update(&services);
    let asked = 60;
    let refused = (0..asked)
        .filter(|_| {
            let at = SocketAddr::new(WEB.parse().unwrap(), 80);
            host.ask("tcp", at).is_err()
        })
        .count();
    assert!((10..50).contains(&refused), "{refused} of {asked}");
    assert_eq!(host.count("socket_reject"), refused as u64);
}
