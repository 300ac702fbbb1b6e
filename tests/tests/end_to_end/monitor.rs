//! `shunt monitor`: the reports to watchers, which no other client notices.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use etherparse::{SlicedPacket, TransportSlice};
use pcap_parser::{Block, Linktype, OptionCode, parse_block_le, parse_sectionheaderblock};
use serde_json::{Value, json};
use shunt_tests::{Continuous, Transport, by_length, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, binary},
};

/// Time that something may take that is done at once.
const SOON: Duration = Duration::from_secs(10);

/// The agent's log lines for the begin and the end of the programs' reports.
const BEGUN: &str = "tell of connections: somebody watches";
pub(crate) const ENDED: &str = "tell of connections no longer";

/// A watcher, until it is dropped.
pub(crate) struct Monitor {
    child: Child,
    lines: Receiver<String>,
}

impl Monitor {
    /// Begins to watch with these arguments, and does not wait for anything.
    fn spawn(world: &World, arguments: &[&str]) -> Self {
        let mut child = Command::new(binary())
            .arg("monitor")
            .args(arguments)
            .arg("--socket")
            .arg(world.agent.socket())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        Self { child, lines }
    }

    /// The first watcher: returns it when the programs report.
    pub(crate) fn first(world: &World, arguments: &[&str]) -> Self {
        let begun = said(world, BEGUN);
        let monitor = Self::spawn(world, arguments);
        wait_for(world, BEGUN, begun + 1);
        monitor
    }

    /// The next event as JSON for which this holds.
    fn event(&self, what: &str, is_meant: impl Fn(&Value) -> bool) -> Value {
        let end = Instant::now() + shunt_tests::patience(SOON);
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left);
            let line = line.unwrap_or_else(|error| panic!("{what}: {error}"));
            let event: Value = serde_json::from_str(&line).unwrap();
            if is_meant(&event) {
                return event;
            }
        }
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Returns the number of times that this is in the agent's log.
pub(crate) fn said(world: &World, what: &str) -> usize {
    world.agent.log().matches(what).count()
}

pub(crate) fn wait_for(world: &World, what: &str, times: usize) {
    let is_said = || (said(world, what) >= times).then_some(());
    wait_until(what, SOON, is_said).unwrap();
}

fn is(kind: &'static str) -> impl Fn(&Value) -> bool {
    move |event| event["kind"] == kind
}

#[test]
fn connections_and_refusals_are_told_with_all_that_is_known_of_them() {
    let Some(mut world) = World::new() else {
        return;
    };
    let backend = world.backend("pod-a");
    let service = Service::new(Transport::Tcp).backend(backend);
    world.add(&service);
    let monitor = Monitor::first(&world, &["-o", "json"]);

    world.ask_from_pod(service.cluster_ip(), 1);
    let opened = monitor.event("a connection is opened", is("opened"));
    assert_eq!(opened["protocol"], "TCP");
    assert_eq!(opened["service"], "default/web");
    assert_eq!(opened["service_port"], "main");
    let expected = json!({ "ip": backend.ip(), "port": backend.port() });
    assert_eq!(opened["backend"], expected);
    assert_eq!(opened["frontend"]["port"], 80);
    let ended = monitor.event("it ends", is("ended"));
    for field in ["client", "frontend", "backend", "service", "protocol"] {
        assert_eq!(ended[field], opened[field], "{field}");
    }
    assert!(ended["duration_seconds"].as_f64().unwrap() > 0.0, "{ended}");

    // From outside, to another node: with a source of this node's.
    let remote = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    world.update(&remote);
    let outside = world.sandbox.outside();
    let tally = outside.enter(|| remote.node_port().ask_times(1, REQUEST));
    assert!(tally.failures.is_empty(), "{tally:#?}");
    let opened = monitor.event("one with SNAT", is("opened"));
    assert!(opened["snat_source"]["ip"].is_string(), "{opened}");

    let empty = Service::new(Transport::Tcp);
    world.update(&empty);
    world
        .client_pod()
        .enter(|| empty.cluster_ip().ask(1))
        .unwrap_err();
    let refused = monitor.event("one is refused", is("refused"));
    assert_eq!(refused["reason"], "reject_no_backend");
    assert_eq!(refused["service"], "default/web");
    assert_eq!(refused["client"]["ip"], opened_by(&world));
}

/// The address of the client pod.
fn opened_by(world: &World) -> Value {
    let pod = world.sandbox.pod("pod-c");
    json!(pod.at(0).ip())
}

#[test]
fn those_who_watch_come_and_go_and_no_connection_notices() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let before: BTreeSet<u32> = world.agent.programs().unwrap();
    let traffic = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);
    let mut long = world
        .client_pod()
        .enter(|| service.cluster_ip().connect())
        .unwrap();
    long.echo(REQUEST).unwrap();
    for round in 1..=3 {
        let first = Monitor::first(&world, &["-o", "json"]);
        let second = Monitor::spawn(&world, &["-o", "json", "--kind", "ended"]);
        first.event("somebody else's connection", is("opened"));
        second.event("its end", is("ended"));
        long.echo(REQUEST).unwrap();
        drop(first);
        second.event("the first one has left", is("ended"));
        assert_eq!(said(&world, ENDED), round - 1);
        // It is killed.
        drop(second);
        wait_for(&world, ENDED, round);
        long.echo(REQUEST).unwrap();
        let now = world.agent.programs().unwrap();
        assert_eq!(now, before, "the programs are those of before");
    }
    assert_eq!(said(&world, BEGUN), 3, "once for all who watch at a time");
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{:?}", sample.outcome);
    }
}

#[test]
fn an_agent_that_takes_over_while_somebody_watches_tells_nothing() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let monitor = Monitor::first(&world, &[]);
    let traffic = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);
    let mut world = world.killed().start(&[]);
    drop(monitor);
    world.apply(&crate::world::resync_with(&[service.json()]));
    world.ask_from_pod(service.cluster_ip(), 10);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{:?}", sample.outcome);
    }
    assert!(!world.pins.path().join("handed-over").exists());
    let monitor = Monitor::first(&world, &["-o", "json"]);
    world.ask_from_pod(service.cluster_ip(), 1);
    monitor.event("the next agent tells", is("opened"));
}

/// Both ends of each pair.
const INTERFACES: usize = 500;
const FEWER: usize = 100;

#[test]
fn programs_are_replaced_at_many_interfaces_and_no_packet_is_lost() {
    let Some(mut world) = World::new() else {
        return;
    };
    let count = by_length(FEWER, INTERFACES);
    let pairs = (0..count / 2)
        .map(|number| format!("link add seen{number} type veth peer name also{number}\n"));
    world
        .sandbox
        .node()
        .configure(&pairs.collect::<String>())
        .unwrap();
    let few = ["eth0", "eth1", "pod-a", "pod-b", "pod-c"].map(str::to_owned);
    let many = (0..count / 2).flat_map(|number| [format!("seen{number}"), format!("also{number}")]);
    let names: Vec<String> = few.into_iter().chain(many).collect();
    let event = json!({ "event": "UpdateLocalFrontendIfs", "old": [], "new": names });
    world.apply(&event.to_string());
    let attached = || {
        let status = world.shunt(&["status", "-o", "json"]).json();
        let interfaces = status["interfaces"].as_array().unwrap();
        let is_done = interfaces.iter().all(|one| one["state"] == "attached");
        (is_done && interfaces.len() == names.len()).then_some(())
    };
    wait_until("all are attached", SOON, attached).unwrap();
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let traffic = Continuous::start(world.client_pod(), service.cluster_ip(), REQUEST);
    traffic.wait_for(20, SOON).unwrap();

    let start = Instant::now();
    let monitor = Monitor::first(&world, &["-o", "json"]);
    let told = start.elapsed();
    monitor.event("somebody's connection", is("opened"));
    drop(monitor);
    wait_for(&world, ENDED, 1);
    for sample in traffic.stop().unwrap() {
        assert!(sample.outcome.is_ok(), "{:?}", sample.outcome);
    }
    let replaced = world.agent.log();
    let replaced: Vec<&str> = replaced
        .lines()
        .filter(|line| line.contains("programs replaced"))
        .collect();
    assert_eq!(replaced.len(), 2, "{replaced:#?}");
    println!("{count} interfaces: told after {told:.1?}, {replaced:#?}");
    // Nearly all of it is the kernel's verifier, before anything is replaced.
    assert!(told < shunt_tests::patience(SOON), "{told:?}");
    for line in replaced {
        let is_quick = line.ends_with("ms") || line.ends_with("µs");
        assert!(is_quick, "less than a second: {line}");
    }
}

#[test]
fn a_dropped_packet_is_told_with_its_reason() {
    let Some(mut world) = World::new() else {
        return;
    };
    // Its only backend is on the other node.
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    let mut event: Value = serde_json::from_str(&service.event("AddService")).unwrap();
    event["service"]["traffic_policy"] = json!("Local");
    world.apply(&event.to_string());
    let monitor = Monitor::first(&world, &["-o", "json", "--kind", "dropped"]);
    let outside = world.sandbox.outside();
    outside.enter(|| service.external_ip().ask(1)).unwrap_err();
    let dropped = monitor.event("a packet is dropped", is("dropped"));
    assert_eq!(dropped["reason"], "drop_no_backend", "{dropped}");
    assert_eq!(dropped["service"], "default/web");
    assert_eq!(dropped["frontend"]["port"], 80);
    assert_eq!(dropped["protocol"], "TCP");
    let status = world.shunt(&["status", "-o", "json"]).json();
    assert_eq!(status["monitor"]["watchers"], 1);
    assert!(status["monitor"]["told"].as_u64().unwrap() > 0);
    assert_eq!(status["monitor"]["lost"], 0);
}

#[test]
fn a_capture_has_the_packets_with_their_reasons() {
    let Some(mut world) = World::new() else {
        return;
    };
    let empty = Service::new(Transport::Tcp);
    world.add(&empty);
    let begun = said(&world, BEGUN);
    let mut child = Command::new(binary())
        .args(["monitor", "-o", "pcapng", "-n", "1", "--socket"])
        .arg(world.agent.socket())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(&world, BEGUN, begun + 1);
    world
        .client_pod()
        .enter(|| empty.cluster_ip().ask(1))
        .unwrap_err();
    let mut file = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut file).unwrap();
    assert!(child.wait().unwrap().success());
    let (mut links, mut packets, mut rest) = (Vec::new(), Vec::new(), file.as_slice());
    let (after, header) = parse_sectionheaderblock(rest).unwrap();
    assert_eq!((header.major_version, header.minor_version), (1, 0));
    rest = after;
    while !rest.is_empty() {
        let (after, block) = parse_block_le(rest).unwrap();
        match block {
            Block::InterfaceDescription(interface) => links.push(interface.linktype),
            Block::EnhancedPacket(packet) => packets.push(packet),
            other => panic!("{other:?}"),
        }
        rest = after;
    }
    assert_eq!(links, [Linktype::ETHERNET, Linktype::RAW]);
    let [packet] = packets.as_slice() else {
        panic!("{packets:?}");
    };
    let comments = packet.options.iter();
    let comments: Vec<_> = comments
        .filter(|option| option.code == OptionCode::Comment)
        .map(|option| String::from_utf8_lossy(option.value()).into_owned())
        .collect();
    let [comment] = comments.as_slice() else {
        panic!("{comments:?}");
    };
    assert!(
        comment.starts_with("refused: reject_no_backend (default/web"),
        "{comment}"
    );
    let bytes = &packet.data[..packet.caplen as usize];
    let sliced = SlicedPacket::from_ethernet(bytes).unwrap();
    let Some(TransportSlice::Tcp(tcp)) = sliced.transport else {
        panic!("{sliced:?}");
    };
    assert!(tcp.syn());
    assert_eq!(tcp.destination_port(), 80);
}
