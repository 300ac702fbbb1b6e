//! Dumps: what `shunt dump` writes, `shunt trace` reads without root, whatever has happened to it.

use std::{
    fs::{self, File},
    net::IpAddr,
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::Command,
};

use serde_json::{Value, json};
use shunt_datapath::RouteLookup;
use shunt_programs::{FibLookup, Way, WayQuestion};
use shunt_tests::{Transport, addresses, by_length};
use shunt_trace::{Dump, Fib, read};
use tempfile::TempDir;

use crate::{
    service::Service,
    trace::Traced,
    world::{REQUEST, World, binary},
};

/// The user `nobody`.
const NOBODY: u32 = 65_534;

/// A dump of the node, and where it is.
fn dumped(world: &World, name: &str, further: &[&str]) -> (TempDir, String) {
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join(name).to_str().unwrap().to_owned();
    let ran = world.shunt(&[&["dump", &file], further].concat());
    assert_eq!((ran.status, ran.errors.as_str()), (0, ""), "{ran:?}");
    (place, file)
}

fn opened(file: &str) -> Dump {
    read(File::open(file).unwrap()).unwrap()
}

/// A world with a service of both kinds of backends, and an open connection from outside.
fn world() -> Option<(World, Service)> {
    let mut world = World::new()?;
    let service = ["pod-a", "pod-d"]
        .into_iter()
        .fold(Service::new(Transport::Tcp), |service, pod| {
            service.backend(world.backend(pod))
        });
    world.add(&service);
    Some((world, service))
}

/// The tables and the counters, without what time changes.
fn state(world: &World) -> (Dump, Value) {
    let (_place, file) = dumped(world, "state", &[]);
    let mut dump = opened(&file);
    (dump.node.taken, dump.node.ticks, dump.node.nanoseconds) = (0, 0, 0);
    // The kernel's own, whose states come and go.
    dump.neighbours.clear();
    let status = world.shunt(&["status", "-o", "json"]).json();
    (dump, status["counters"].clone())
}

#[test]
fn a_trace_changes_nothing() {
    let Some((world, service)) = world() else {
        return;
    };
    world.sandbox.outside().enter(|| {
        service.node_port().ask(REQUEST).unwrap();
    });
    let before = state(&world);
    let to = service.node_port().address().to_string();
    for from in [addresses::OUTSIDE, addresses::POD_C, addresses::NODE2] {
        let from = from.to_string();
        let ran = world.shunt(&["trace", "--from", &from, "--to", &to, "--count", "50"]);
        ran.clean();
    }
    let after = state(&world);
    assert_eq!(before.1, after.1, "no counter");
    assert!(before.0 == after.0, "no entry of any table");
}

#[test]
fn a_dump_is_read_without_root_and_says_what_the_node_says() {
    let Some((world, service)) = world() else {
        return;
    };
    let target = service.node_port();
    let connection = world
        .sandbox
        .outside()
        .enter(|| target.from_port(41_235).connect().unwrap());
    let (place, file) = dumped(&world, "node.dump", &[]);
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "it has what others may not see");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).unwrap();
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
    // The folder of the build is not readable for that user.
    let shunt = place.path().join("shunt");
    fs::copy(binary(), &shunt).unwrap();
    let from = format!("{}:41235", addresses::OUTSIDE);
    let to = target.address().to_string();
    let question = [
        "trace", "-o", "json", "--flags", "ack", "--from", &from, "--to", &to,
    ];
    let output = Command::new(&shunt)
        .args(question)
        .args(["--dump", &file])
        .uid(NOBODY)
        .gid(NOBODY)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    let of_file: Value = serde_json::from_slice(&output.stdout).unwrap();
    let of_node = world.shunt(&question);
    assert_eq!(of_file["steps"], of_node.json()["steps"]);
    assert_eq!(of_file["frame"], of_node.json()["frame"]);
    drop(connection);
}

#[test]
fn an_anonymous_dump_takes_the_same_steps_and_has_no_address_of_the_node() {
    let Some((world, service)) = world() else {
        return;
    };
    let target = service.cluster_ip();
    let mut connection = world
        .client_pod()
        .enter(|| target.from_port(41_236).connect().unwrap());
    connection.echo(REQUEST).unwrap();
    let (_place, file) = dumped(&world, "plain", &[]);
    let (_other, anonymous) = dumped(&world, "anonymous", &["--anonymous"]);
    let (plain, hidden) = (opened(&file), opened(&anonymous));
    assert!(hidden.node.anonymous && !plain.node.anonymous);
    // With them, anyone could compute connections that share a place in the live tables.
    let seeds = &plain.constants["CONNTRACK_SEEDS"];
    let of = |dump: &Dump| {
        let entries = dump
            .tables
            .values()
            .flat_map(|table| table.entries.values());
        let mut all = dump.constants.values().chain(entries);
        all.any(|bytes| bytes.windows(seeds.len()).any(|bytes| bytes == seeds))
    };
    assert!(of(&plain) && !of(&hidden));
    // What stands for the client pod is where the route to it was.
    let find = |address: IpAddr| {
        let mut routes = plain.routes.iter();
        let place = routes.position(|route| {
            route.destination.addr() == address && route.destination.prefix_len() == 32
        });
        hidden.routes[place.unwrap()].destination.addr()
    };
    let frontend = |dump: &Dump| {
        let frontends = dump.frontends.iter();
        let mut found = frontends.filter(|frontend| frontend.kind == "ClusterIP");
        let found = found.next().unwrap();
        format!("{}:{}", found.address, found.port)
    };
    let steps = |dump: &str, client: IpAddr, to: &str, port: u16, flags: &str| {
        let from = format!("{client}:{port}");
        let traced = Traced::of(&world.shunt(&[
            "trace", "-o", "json", "--dump", dump, "--from", &from, "--to", to, "--flags", flags,
        ]));
        let names = traced.steps().iter().map(|step| step["step"].clone());
        (names.collect::<Vec<_>>(), traced.0["end"].clone())
    };
    let pod = addresses::POD_C;
    for (port, flags) in [(41_236, "ack"), (41_237, "syn")] {
        assert_eq!(
            steps(&file, pod, &frontend(&plain), port, flags),
            steps(&anonymous, find(pod), &frontend(&hidden), port, flags),
            "{flags}"
        );
    }
    let (names, _) = steps(&anonymous, find(pod), &frontend(&hidden), 41_236, "ack");
    assert!(names.contains(&json!("connection")), "{names:?}");

    let text: Vec<u8> = hidden.records().flat_map(|record| record.line()).collect();
    let text = String::from_utf8(text).unwrap();
    let known = [
        addresses::NODE,
        addresses::POD_A,
        addresses::POD_C,
        addresses::OUTSIDE,
        addresses::POD_D,
    ];
    let words = ["default/web", "eth0", "pod-a"].map(str::to_owned);
    for word in known
        .map(|address| address.to_string())
        .iter()
        .chain(&words)
    {
        assert!(!text.contains(&format!("\"{word}")), "{word}");
    }
    for address in known {
        let IpAddr::V4(address) = address else {
            continue;
        };
        let digits = format!("{:08x}", address.to_bits());
        // Of a connection's slot the halves of a word may by chance be so once in billions.
        assert!(!text.contains(&digits), "{address} as {digits}");
    }
}

#[test]
fn what_is_no_dump_any_more_is_an_error_that_says_so() {
    let Some((world, _)) = world() else {
        return;
    };
    let (place, file) = dumped(&world, "whole", &[]);
    let whole = fs::read(&file).unwrap();
    let other = place.path().join("other");
    let ask = |bytes: &[u8]| {
        fs::write(&other, bytes).unwrap();
        let file = other.to_str().unwrap();
        let ran = world.shunt(&[
            "trace",
            "--from",
            "10.1.1.5",
            "--to",
            "10.96.0.10:80",
            "--dump",
            file,
        ]);
        assert!(ran.status == 0 || ran.status == 1, "{ran:?}");
        assert!(!ran.errors.contains("panicked"), "{ran:?}");
        ran
    };
    for (bytes, words) in [
        (&b"#!/bin/sh\n"[..], "this is no dump"),
        (b"", "this is no dump"),
        (b"SHUNT-DUMP 99\nxyz", "has form 99"),
        (&whole[..whole.len() / 2], "cannot be read on"),
    ] {
        let ran = ask(bytes);
        assert_eq!(ran.status, 1);
        assert!(ran.errors.contains(words), "{words}: {ran:?}");
    }
    // A number that is not random, and no multiple of anything.
    let step = by_length(whole.len() / 20, whole.len() / 400).max(1);
    for place in (0..whole.len()).step_by(step) {
        let mut changed = whole.clone();
        changed[place] ^= 0x55;
        ask(&changed);
    }
    let mut missing = world.shunt(&[
        "trace",
        "--from",
        "10.1.1.5",
        "--to",
        "10.96.0.10:80",
        "--dump",
        "/nowhere/dump",
    ]);
    assert_eq!(missing.status, 1);
    missing = world.shunt(&["dump", "/nowhere/dump"]);
    assert_eq!(missing.status, 1);
    assert!(
        missing.errors.contains("cannot write /nowhere/dump"),
        "{missing:?}"
    );
}

/// Routes of all kinds, and rules: in the node's namespace.
const NETWORK: &str = "route add 10.50.0.0/16 via 192.168.16.20
route add 10.50.7.0/24 dev eth0
route add 10.50.7.0/24 via 192.168.16.20 metric 50
route add blackhole 10.51.0.0/16
route add unreachable 10.52.0.0/16
route add prohibit 10.53.0.0/16
route add throw 10.54.0.0/16
route add 10.55.0.0/16 via 192.168.16.20 mtu lock 1300
route add 10.56.0.0/16 via 192.168.16.20 mtu 1300
route add default via 192.168.16.20 table 77
route add 10.57.0.0/16 dev eth0 table 77
route add fd50::/16 via fd00:192:168:16::20
route add blackhole fd51::/16
route add fd52::/16 via fd00:192:168:16::20 mtu lock 1300
neigh replace 10.50.7.7 lladdr 02:00:00:00:00:77 dev eth0 nud permanent
";

const RULES: &str = "rule add from 10.9.0.0/16 table 77 priority 100
rule add to 10.60.0.0/16 prohibit priority 101
rule add iif eth0 to 10.61.0.0/16 table 77 priority 102
rule add from 10.8.0.0/16 table main suppress_prefixlength 0 priority 103
";

#[test]
fn routes_lead_where_the_kernel_says() {
    let Some(world) = World::new() else {
        return;
    };
    let node = world.sandbox.node();
    node.configure(NETWORK).unwrap();
    node.configure(RULES).unwrap();
    // Of what was just added a neighbour may still be asked for.
    let (_place, file) = dumped(&world, "routes", &[]);
    let dump = opened(&file);
    let fib = Fib(&dump);
    let lookup = node.enter(|| RouteLookup::open().unwrap());
    let mut compared = 0;
    let sources = ["10.9.1.1", "10.8.1.1", "192.0.2.9", "fd00::9"];
    let destinations = [
        "10.50.1.1",
        "10.50.7.7",
        "10.50.7.8",
        "10.51.1.1",
        "10.52.1.1",
        "10.53.1.1",
        "10.54.1.1",
        "10.55.1.1",
        "10.56.1.1",
        "10.57.1.1",
        "10.60.1.1",
        "10.61.1.1",
        "10.1.1.3",
        "10.1.2.3",
        "192.168.16.10",
        "192.168.16.20",
        "198.51.100.50",
        "203.0.113.7",
        "8.8.8.8",
        "127.0.0.1",
        "fd50::1",
        "fd51::1",
        "fd52::1",
        "fd00:10:1:1::3",
        "fd00:192:168:16::20",
        "2001:db8::1",
    ];
    for interface in &dump.interfaces {
        for source in sources {
            for destination in destinations {
                for length in [0, 1200, 1400, 1600] {
                    let question = WayQuestion {
                        interface: interface.index,
                        source: source.parse().unwrap(),
                        destination: destination.parse().unwrap(),
                        length,
                    };
                    if question.source.is_ipv4() != question.destination.is_ipv4() {
                        continue;
                    }
                    let of_kernel = node.enter(|| asked(&lookup, &question));
                    let ours = fib.ask(&question);
                    assert_eq!(ours, of_kernel, "{} {question:?}", interface.name);
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 500, "{compared}");
}

/// Returns the answer of the kernel's helper.
fn asked(lookup: &RouteLookup, question: &WayQuestion) -> (i64, Option<Way>) {
    let mut asked = question.lookup();
    // SAFETY: as many bytes, of which each value is one.
    let bytes = unsafe { &mut *(&raw mut asked).cast::<[u8; size_of::<FibLookup>()]>() };
    let result: i64 = lookup.look_up(bytes).unwrap().into();
    (result, Way::of(result, question, &asked))
}
