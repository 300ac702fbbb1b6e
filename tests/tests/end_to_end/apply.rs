//! `shunt apply`: events through the agent's socket.

use std::{fmt::Write as _, fs, time::Instant};

use serde_json::{Value, json};
use shunt_tests::{Ack, Agent, PinDir, Sandbox, Target, Transport, is_root};

use crate::{
    command::{shunt, shunt_at},
    service::Service,
    world::{World, binary, resync, resync_with},
};

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/example-events.jsonl");

/// A service's event with another port.
fn with_port(service: &Service, port: u32) -> String {
    let mut event: Value = serde_json::from_str(&service.event("AddService")).unwrap();
    event["service"]["ports"]["main"]["port"] = port.into();
    event.to_string()
}

/// That live frontends are listed as they are rendered, but for what is counted of their services: a
/// table of its own, or a field of each.
#[track_caller]
fn assert_rendered(live: &str, rendered: &str) {
    let Ok(mut frontends) = serde_json::from_str::<Value>(live) else {
        let (frontends, counters) = live.split_once("\n\n").unwrap();
        assert!(counters.starts_with("SERVICE "), "{counters}");
        assert_eq!(frontends, rendered.trim_end());
        return;
    };
    for frontend in frontends.as_array_mut().unwrap() {
        let counters = frontend.as_object_mut().unwrap().remove("counters");
        assert!(counters.is_some(), "{frontend}");
    }
    let rendered: Value = serde_json::from_str(rendered).unwrap();
    assert!(frontends == rendered, "other frontends are live");
}

#[test]
fn what_is_applied_is_listed_as_it_is_rendered() {
    let Some(world) = World::new() else {
        return;
    };
    let acknowledged = world.shunt(&["apply", EXAMPLE]).clean();
    let subjects: Vec<&str> = acknowledged
        .lines()
        .filter_map(|line| Some(line.rsplit_once(": ")?.0))
        .collect();
    assert_eq!(
        subjects,
        [
            "line 1: Resync",
            "line 2: AddService default/web",
            "line 3: AddService default/api",
            "line 4: AddService default/logs",
            "line 5: AddService kube-system/dns",
            "line 6: UpdateLocalFrontendIfs",
        ]
    );
    for form in ["table", "wide", "json"] {
        let live = world.shunt(&["services", "-o", form]).clean();
        let node = ["--node-ip", "192.168.16.10", "-o", form];
        let rendered = shunt(&[&["render", "--events", EXAMPLE], &node[..]].concat(), "");
        assert_rendered(&live, &rendered.clean());
    }
}

#[test]
fn a_bad_line_is_refused_in_the_words_of_the_log_and_the_next_is_applied() {
    let Some(mut world) = World::new() else {
        return;
    };
    let right = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let lines = [
        &*with_port(&right, 0),
        "",
        "{}",
        &*right.event("AddService"),
    ];
    let ran = world.apply_lines(&lines);
    let mut words = String::new();
    for (line, number) in [(lines[0], 1), (lines[2], 3)] {
        let Ack::Refused(reason) = world.agent.apply(line).unwrap() else {
            panic!("{line} must be refused");
        };
        let (_, reason) = reason
            .split_once("line ")
            .map_or(("", &*reason), |(_, text)| text.split_once(": ").unwrap());
        writeln!(words, "error: line {number}: {reason}").unwrap();
    }
    assert_eq!((ran.status, ran.errors), (1, words));
    assert!(
        ran.output
            .starts_with("line 4: AddService default/web: 4 added, ")
    );
    world.ask_from_pod(right.cluster_ip(), 5);
}

#[test]
fn what_the_tables_do_not_take_is_refused_in_the_words_of_the_log() {
    let Some(mut world) = World::new() else {
        return;
    };
    let backends: Vec<_> = (0..300)
        .map(|number| json!({ "ip": "10.1.1.3", "port": 1000 + number }))
        .collect();
    let mut event: Value =
        serde_json::from_str(&Service::new(Transport::Tcp).event("AddService")).unwrap();
    event["service"]["backends"]["main"] = backends.into();
    let event = event.to_string();
    let ran = world.apply_lines(&[&event]);
    let Ack::Refused(reason) = world.agent.apply(&event).unwrap() else {
        panic!("300 backends must not fit into 256");
    };
    let full = "the backends table is full";
    assert!(reason.contains(full), "{reason}");
    let (_, words) = reason.split_once(full).unwrap();
    assert_eq!(ran.errors, format!("error: line 1: {full}{words}\n"));
    assert_eq!(ran.status, 1);
}

/// A service of one frontend that a pod serves, without its other addresses.
fn small(world: &World, name: &str, ip: &str) -> Value {
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    let mut service = service.json();
    service["id"]["name"] = name.into();
    service["cluster_ips"] = json!([ip]);
    service["external_ips"] = json!([]);
    service["ports"] = json!({ "main": { "protocol": "TCP", "port": 80 } });
    service
}

#[test]
fn a_resync_takes_effect_without_the_services_that_do_not_fit() {
    let Some(mut world) = World::new() else {
        return;
    };
    let mut large = small(&world, "large", "10.96.0.30");
    let backends = (0..300).map(|number| json!({ "ip": "10.1.1.3", "port": 1000 + number }));
    large["backends"]["main"] = backends.collect();
    let [first, last] = ["10.96.0.31", "10.96.0.32"];
    let snapshot = resync_with(&[
        small(&world, "first", first),
        large,
        small(&world, "last", last),
    ]);
    let words = "error: line 1: service default/large does not fit and is left out: it needs 300 entries of the \
                 backends (IPv4) table, which has 256; the next start with a larger --max-backends makes room, and \
                 interrupts nothing\n";
    // Over the tables of this agent, and then over those that it has pinned.
    for _ in 0..2 {
        let ran = world.apply_lines(&[&snapshot]);
        assert_eq!((ran.status, ran.errors.as_str()), (1, words));
        for ip in [first, last] {
            world.ask_from_pod(Target::tcp(format!("{ip}:80").parse().unwrap()), 5);
        }
        world = world.stopped().start(&[]);
    }
}

#[test]
fn events_before_the_first_resync_are_said_to_be_held() {
    let Some(world) = World::new() else {
        return;
    };
    let backend = world.backend("pod-a");
    let world = world.stopped().start(&[]);
    let service = Service::new(Transport::Tcp).backend(backend);
    let held = world.apply_lines(&[&service.event("AddService")]).clean();
    assert_eq!(
        held,
        "line 1: AddService default/web: held until the first Resync\n"
    );
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(
        (&status["held"], &status["synced"]),
        (&1.into(), &false.into())
    );

    world.apply_lines(&[&resync()]).clean();
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(
        (&status["held"], &status["synced"]),
        (&0.into(), &true.into())
    );
    assert_eq!(status["applied"], 2);
    world.ask_from_pod(service.cluster_ip(), 5);
}

#[test]
fn without_an_agent_or_a_file_the_status_is_2() {
    for arguments in [
        &["apply", "-"][..],
        &["services"],
        &["status"],
        &["conntrack"],
        &["lookup", "10.96.0.1"],
    ] {
        let ran = shunt_at("/nonexistent/shunt.sock".as_ref(), arguments, "");
        let words = "error: no agent answers at /nonexistent/shunt.sock: \
                     No such file or directory (os error 2)\n";
        assert_eq!((ran.status, &*ran.errors), (2, words), "{arguments:?}");
    }
    for arguments in [
        &["apply"][..],
        &["lookup", "10.96.0.1:0"],
        &["lookup", "web"],
        &["status", "-o", "xml"],
    ] {
        assert_eq!(shunt(arguments, "").status, 2, "{arguments:?}");
    }
}

#[test]
fn a_snapshot_of_250000_backends_is_one_resync() {
    const SERVICES: u32 = 5_000;
    const BACKENDS: u32 = 50;
    if !is_root() {
        eprintln!("skipped: needs root");
        return;
    }
    let sandbox = Sandbox::new().unwrap();
    let pins = PinDir::new();
    // With tables of the default sizes.
    let flags: [&str; 0] = [];
    let agent = Agent::start(&binary(), sandbox.node(), &pins, &flags).unwrap();
    let services: Vec<Value> = (0..SERVICES)
        .map(|service| {
            let backend = |index: u32| {
                let [_, b, c, d] = (service * BACKENDS + index).to_be_bytes();
                json!({ "ip": format!("10.{}.{c}.{d}", 128 + b), "port": 1_024 + index })
            };
            let backends: Vec<Value> = (0..BACKENDS).map(backend).collect();
            json!({
                "id": { "namespace": "default", "name": format!("s{service}") },
                "cluster_ips": [format!("10.96.{}.{}", service / 250, 1 + service % 250)],
                "ports": { "http": { "protocol": "TCP", "port": 80 } },
                "backends": { "http": backends },
            })
        })
        .collect();
    let mut snapshot: Value = serde_json::from_str(&resync()).unwrap();
    snapshot["services"] = services.into();
    let file = agent.socket().with_file_name("snapshot.jsonl");
    fs::write(&file, snapshot.to_string()).unwrap();
    let apply = || {
        let start = Instant::now();
        let ran = shunt_at(agent.socket(), &["apply", file.to_str().unwrap()], "");
        let first = ran.output.lines().next();
        eprintln!("{:?} for {}", start.elapsed(), first.unwrap_or_default());
        ran.clean()
    };
    let first = apply();
    assert!(
        first.starts_with("line 1: Resync: 5000 added, 0 changed, 0 removed, "),
        "{first}"
    );
    let second = apply();
    assert!(
        second.starts_with("line 1: Resync: 0 added, 0 changed, 0 removed, ")
            && second.ends_with(" 0 writes\n"),
        "the same snapshot again: {second}"
    );
    let status = shunt_at(agent.socket(), &["status", "-o", "json"], "").json();
    let used = |name: &str| {
        let tables = status["tables"].as_array().unwrap().iter();
        let mut named = tables.filter(|table| table["name"] == name);
        named.next().unwrap()["used"].as_u64().unwrap()
    };
    assert_eq!(used("backends_v4"), u64::from(SERVICES * BACKENDS));
    assert_eq!(used("frontends_v4"), u64::from(SERVICES));
    assert_eq!(status["differences"], json!([]));
    let live = shunt_at(agent.socket(), &["services", "-o", "json"], "");
    let rendered = shunt(
        &[
            "render",
            "-o",
            "json",
            "--node-ip",
            "192.168.16.10",
            "--events",
            file.to_str().unwrap(),
        ],
        "",
    );
    assert_rendered(&live.clean(), &rendered.clean());

    // Many small events while the agent is at work on a large one.
    let mut lines = fs::read_to_string(&file).unwrap();
    for _ in 0..5_000 {
        lines += "\n";
        lines += &Service::delete();
    }
    fs::write(&file, lines).unwrap();
    assert_eq!(apply().lines().count(), 5_001);
    // Nothing is left to keep up.
    shunt_at(agent.socket(), &["apply", "-"], &resync()).clean();
}
