//! `shunt apply`: events through the agent's socket.

use std::{
    fmt::Write as _,
    fs,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{
    Ack, Agent, PinDir, Sandbox, Target, Transport, addresses, has_root, wait_until,
};

use crate::{
    command::{shunt, shunt_at},
    service::Service,
    world::{REQUEST, World, binary, resync, resync_with},
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
    let acknowledged = world.shunt(&["apply", EXAMPLE, "--over-source"]).clean();
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
        let log = world.agent.log();
        assert!(
            !log.contains("go on from another address"),
            "a try that fails leaves the address of SNAT: {log}"
        );
        world = world.stopped().start(&[]);
    }
}

/// As [`small`], in this namespace and with external addresses, which may be those of others too.
fn sharing(world: &World, namespace: &str, ip: &str, external: std::ops::Range<u8>) -> Value {
    let mut service = small(world, "web", ip);
    service["id"]["namespace"] = namespace.into();
    let external = external.map(|last| format!("203.0.113.{last}"));
    service["external_ips"] = external.collect();
    service
}

#[test]
fn services_that_share_addresses_with_one_that_is_left_out_are_counted_with_them() {
    let Some(world) = World::new() else {
        return;
    };
    // There is room for 64 frontends. The first service has the addresses of all others, until it is left out.
    let snapshot = resync_with(&[
        sharing(&world, "a", "10.96.0.30", 100..170),
        sharing(&world, "b", "10.96.0.31", 100..130),
        sharing(&world, "c", "10.96.0.32", 110..140),
        sharing(&world, "d", "10.96.0.33", 120..150),
        sharing(&world, "e", "10.96.0.34", 130..160),
        sharing(&world, "f", "10.96.0.35", 0..0),
    ]);
    let mut world = world.stopped().start(&[]);
    // The first Resync, and then one over what that has pinned.
    for _ in 0..2 {
        let ran = world.apply_lines(&[&snapshot]);
        for namespace in ["a", "d", "e"] {
            let words = format!("service {namespace}/web does not fit and is left out: ");
            assert!(ran.errors.contains(&words), "{}", ran.errors);
        }
        assert_eq!((ran.status, ran.errors.lines().count()), (1, 3));
        for ip in ["10.96.0.31", "10.96.0.32", "10.96.0.35"] {
            world.ask_from_pod(Target::tcp(format!("{ip}:80").parse().unwrap()), 5);
        }
        let log = world.agent.log();
        assert!(
            !log.contains("go on from another address"),
            "a try that fails leaves the address of SNAT: {log}"
        );
        let again = world.apply_lines(&[&snapshot]);
        assert!(again.output.contains(" 0 writes"), "{}", again.output);
        world = world.stopped().start(&[]);
    }
}

#[test]
fn services_of_the_namespace_that_has_most_give_way_to_one_of_another() {
    let Some(world) = World::new() else {
        return;
    };
    let add = |service: Value| json!({ "event": "AddService", "service": service }).to_string();
    let crowd = |last: u8| {
        let mut service = small(
            &world,
            &format!("web-{last:02}"),
            &format!("10.96.1.{last}"),
        );
        service["id"]["namespace"] = "crowd".into();
        add(service)
    };
    // There is room for 64 frontends.
    let crowd: Vec<String> = (0..64).map(crowd).collect();
    let lines: Vec<&str> = crowd.iter().map(String::as_str).collect();
    world.apply_lines(&lines).clean();
    let target = |ip: &str| Target::tcp(format!("{ip}:80").parse().unwrap());
    let mut open = world
        .client_pod()
        .enter(|| target("10.96.1.63").connect().unwrap());
    open.echo(REQUEST).unwrap();
    // A namespace that would have more with it finds no room.
    let large = add(sharing(&world, "other", "10.96.0.31", 100..180));
    let ran = world.apply_lines(&[&large]);
    assert!(
        ran.errors.contains("the frontends table is full"),
        "{}",
        ran.errors
    );
    let other = add(sharing(&world, "other", "10.96.0.31", 100..110));
    let ran = world.apply_lines(&[&other]);
    let left_out: Vec<String> = (53..64)
        .map(|last| format!("service crowd/web-{last} does not fit and is left out: "))
        .collect();
    assert_eq!(ran.errors.lines().count(), left_out.len(), "{}", ran.errors);
    for words in &left_out {
        assert!(ran.errors.contains(words), "{}", ran.errors);
    }
    for ip in ["10.96.0.31", "203.0.113.105", "10.96.1.52"] {
        world.ask_from_pod(target(ip), 5);
    }
    open.echo(REQUEST).unwrap();
    // It does not get its room back from those that have less.
    let ran = world.apply_lines(&[&crowd[63]]);
    assert!(
        ran.errors.contains("the frontends table is full"),
        "{}",
        ran.errors
    );
    world.ask_from_pod(target("10.96.0.31"), 5);
}

#[test]
fn services_give_way_to_node_addresses_as_in_a_resync() {
    let Some(mut world) = World::new() else {
        return;
    };
    // There is room for 64 frontends: each of these services has one, and one more at each node address.
    let crowd = |last: u8| {
        let name = format!("web-{last:02}");
        let mut service = small(&world, &name, &format!("10.96.1.{last}"));
        service["id"]["namespace"] = "crowd".into();
        service["ports"]["main"]["node_port"] = json!(30_000 + u16::from(last));
        service
    };
    let mut services: Vec<Value> = (0..20).map(crowd).collect();
    services.push(sharing(&world, "other", "10.96.0.31", 0..0));
    let mut snapshot: Value = serde_json::from_str(&resync_with(&services)).unwrap();
    snapshot["node_ips"] = json!([addresses::NODE, addresses::NODE2]);
    world.apply_lines(&[&snapshot.to_string()]).clean();
    let target = |ip: &str| Target::tcp(format!("{ip}:80").parse().unwrap());
    // Three addresses are 20 frontends more than there is room for: 15 services have 60, and the other one has one.
    let third = "192.168.16.99";
    let node_ips = json!([addresses::NODE, addresses::NODE2, third]);
    let update = json!({ "event": "UpdateNodePortServices", "node_ips": node_ips, "services": [] });
    let ran = world.apply_lines(&[&update.to_string()]);
    let left_out = |errors: &str| {
        for last in 0..20 {
            let words = format!("service crowd/web-{last:02} does not fit and is left out: ");
            assert_eq!(errors.contains(&words), last >= 15, "{errors}");
        }
        assert_eq!(errors.lines().count(), 5, "{errors}");
    };
    left_out(&ran.errors);
    let live = world.shunt(&["services"]).clean();
    assert!(live.contains("192.168.16.99:30014"), "{live}");
    assert!(!live.contains("192.168.16.99:30015"), "{live}");
    for ip in ["10.96.0.31", "10.96.1.14"] {
        world.ask_from_pod(target(ip), 5);
    }
    // A restart admits the same services.
    snapshot["node_ips"] = node_ips;
    world = world.stopped().start(&[]);
    left_out(&world.apply_lines(&[&snapshot.to_string()]).errors);
}

/// As [`small`], with addresses of a balancer's and so many source ranges.
fn guarded(world: &World, name: &str, ip: &str, balancer: [&str; 2], ranges: u16) -> Value {
    let mut service = small(world, name, ip);
    service["load_balancer_ips"] = json!(balancer);
    let ranges = (0..ranges).flat_map(|number| {
        let [high, low] = number.to_be_bytes();
        [
            format!("172.{high}.{low}.0/24"),
            format!("2001:db8:{number:x}::/48"),
        ]
    });
    service["load_balancer_source_ranges"] = ranges.collect();
    service
}

#[test]
fn a_resync_takes_effect_without_the_source_ranges_that_do_not_fit() {
    let Some(world) = World::with_flags(&["--max-source-ranges", "64"]) else {
        return;
    };
    let [first, last] = ["10.96.0.31", "10.96.0.32"];
    let snapshot = resync_with(&[
        guarded(&world, "first", first, ["192.0.2.1", "2001:db8::1"], 40),
        guarded(
            &world,
            "large",
            "10.96.0.30",
            ["192.0.2.2", "2001:db8::2"],
            65,
        ),
        guarded(
            &world,
            "next",
            "10.96.0.33",
            ["192.0.2.3", "2001:db8::3"],
            30,
        ),
        guarded(&world, "last", last, ["192.0.2.4", "2001:db8::4"], 20),
    ]);
    let mut world = world.stopped().start(&["--max-source-ranges", "64"]);
    for _ in 0..2 {
        let ran = world.apply_lines(&[&snapshot]);
        let lines: Vec<&str> = ran.errors.lines().collect();
        let expected = [
            (
                "large",
                "it needs 65 entries of the source ranges (IPv4) table, which has 64; ",
            ),
            (
                "next",
                "it needs 30 of the 64 entries of the source ranges (IPv4) table, ",
            ),
        ];
        assert_eq!((ran.status, lines.len()), (1, expected.len()), "{lines:?}");
        for (line, (name, reason)) in lines.iter().zip(expected) {
            let words = format!("service default/{name} does not fit and is left out: {reason}");
            assert!(line.contains(&words), "{line}");
            assert!(line.contains("--max-source-ranges"), "{line}");
        }
        for ip in [first, last] {
            world.ask_from_pod(Target::tcp(format!("{ip}:80").parse().unwrap()), 5);
        }
        let again = world.apply_lines(&[&snapshot]);
        assert!(again.output.contains(" 0 writes"), "{}", again.output);
        world = world.stopped().start(&["--max-source-ranges", "64"]);
    }
    // An event that finds no room names the table too.
    let next = guarded(
        &world,
        "next",
        "10.96.0.33",
        ["192.0.2.3", "2001:db8::3"],
        65,
    );
    let event = json!({ "event": "AddService", "service": next }).to_string();
    let ran = world.apply_lines(&[&snapshot, &event]);
    let words = "the source ranges table is full (IPv4): ";
    assert!(ran.errors.contains(words), "{}", ran.errors);
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
fn a_resync_beside_a_stream_of_events_is_refused_until_the_stream_ends() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let apply = |world: &World, flags: &[&str]| {
        let arguments = [&["apply", "-"], flags].concat();
        shunt_at(world.agent.socket(), &arguments, &resync())
    };
    let refused = apply(&world, &[]);
    let words = "error: line 1: the agent is reading events from standard input, which would not bring back what \
                 this Resync removes";
    assert_eq!(refused.status, 1);
    assert!(refused.errors.starts_with(words), "{refused:?}");
    world.ask_from_pod(service.cluster_ip(), 3);
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["refused"], 1);
    // Other events of clients are welcome.
    let other = world.apply_lines(&[&service.event("UpdateService")]);
    assert_eq!(other.status, 0, "{other:?}");
    let over = apply(&world, &["--over-source"]).clean();
    assert!(
        over.starts_with("line 1: Resync: 0 added, 0 changed, "),
        "{over}"
    );

    // A file that was read to its end has no last word.
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("events.jsonl");
    fs::write(
        &file,
        format!("{}\n{}\n", resync(), service.event("AddService")),
    )
    .unwrap();
    let pins = PinDir::new();
    let flags = ["--events", file.to_str().unwrap()];
    let agent = Agent::alone(&binary(), world.sandbox.node(), &pins, &flags).unwrap();
    wait_until("the file ends", Duration::from_secs(10), || {
        agent.log().contains("end of the events").then_some(())
    })
    .unwrap();
    shunt_at(agent.socket(), &["apply", "-"], &resync()).clean();
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
    if !has_root() {
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
        let ran = shunt_at(
            agent.socket(),
            &["apply", file.to_str().unwrap(), "--over-source"],
            "",
        );
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
    let arguments = ["apply", "-", "--over-source"];
    shunt_at(agent.socket(), &arguments, &resync()).clean();
}
