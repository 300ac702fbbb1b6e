//! `shunt monitor`: what those who watch are told, and that nobody else notices.

use std::{
    collections::BTreeSet,
    io::{BufRead as _, BufReader, Read as _},
    process::{Child, Command, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use shunt_tests::{Continuous, Transport, wait_until};

use crate::{
    service::Service,
    world::{REQUEST, World, binary},
};

/// How long something may take that is done at once.
const SOON: Duration = Duration::from_secs(10);

/// What the agent's log says when programs tell, and when they do no longer.
const BEGUN: &str = "tell of connections: somebody watches";
const ENDED: &str = "tell of connections no longer";

/// Somebody who watches, until it is dropped.
struct Monitor {
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

    /// The first who watches: gives it when the programs tell.
    fn first(world: &World, arguments: &[&str]) -> Self {
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

/// How often the agent's log says this.
fn said(world: &World, what: &str) -> usize {
    world.agent.log().matches(what).count()
}

fn wait_for(world: &World, what: &str, times: usize) {
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
    // The blocks stand one behind the other, each with its length before and behind it.
    let number = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
    let (mut blocks, mut at) = (Vec::new(), 0);
    while at < file.len() {
        let length = number(at + 4) as usize;
        assert_eq!(number(at + length - 4) as usize, length);
        blocks.push((number(at), &file[at + 8..at + length - 4]));
        at += length;
    }
    let kinds: Vec<u32> = blocks.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [0x0a0d_0d0a, 1, 1, 6]);
    let comment = "refused: reject_no_backend (default/web";
    let packet = blocks[3].1;
    let has_comment = packet
        .windows(comment.len())
        .any(|bytes| bytes == comment.as_bytes());
    assert!(has_comment, "{packet:?}");
}
