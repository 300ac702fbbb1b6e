//! Drivers that forward packets while one agent ends and the next one takes over.

use std::time::Duration;

use shunt_tests::{Continuous, Transport, addresses};

use crate::{
    service::Service,
    snat::Open,
    world::{REQUEST, World, all_answered_outside, resync_with},
    xdp::{TIMES, flags, status, taken, uplink, world},
};

const SOON: Duration = Duration::from_secs(10);

#[test]
fn drivers_go_on_without_an_agent_and_the_next_one_takes_them_over() {
    for mode in ["native", "generic"] {
        let Some((world, service)) = world(mode, Transport::Tcp) else {
            return;
        };
        let outside = world.sandbox.outside();
        let mut open = outside.enter(|| Open::new(service.node_port(), Transport::Tcp));
        let first = open.ask();
        let unattended = world.killed();
        assert_eq!(open.ask().peer, first.peer, "without an agent");
        all_answered_outside(unattended.sandbox.outside(), service.node_port(), TIMES);
        let flags = flags(mode);
        let flags = flags.each_ref().map(String::as_str);
        // With larger tables.
        let sizes = [
            "--max-frontends",
            "100",
            "--max-slots",
            "2000",
            "--max-backends",
            "300",
        ];
        let mut world = unattended.start(&[&flags[..], &sizes].concat());
        assert_eq!(open.ask().peer, first.peer, "before its first event");
        world.apply(&resync_with(&[service.json()]));
        assert!(world.agent.log().contains("XDP program replaced"));
        assert_eq!(uplink(&world.agent, "eth0").0, mode);
        let before = taken(&world.agent);
        assert_eq!(open.ask().peer, first.peer, "after it");
        all_answered_outside(world.sandbox.outside(), service.node_port(), TIMES);
        assert!(taken(&world.agent) >= before + u64::from(2 * TIMES));
    }
}

/// Requests that go on all the time, while an agent is replaced by the next.
struct Lasting(Continuous);

impl Lasting {
    fn start(world: &World, service: &Service) -> Self {
        let outside = world.sandbox.outside();
        let target = service.node_port();
        Self(Continuous::start(outside, target, REQUEST))
    }

    /// Waits for some more.
    fn some(&self) {
        self.0.wait_for(50, SOON).unwrap();
    }

    /// Each must have been answered, by the backend elsewhere from this node's address.
    fn end(self) {
        for sample in self.0.stop().unwrap() {
            let answer = sample.outcome.unwrap_or_else(|error| {
                panic!("asked at {:?}: {error}", sample.started);
            });
            assert_eq!(answer.peer.ip(), addresses::NODE);
        }
    }
}

/// Has the next agent, with these flags, take over the drivers while requests go on.
fn takes_over(transport: Transport, flags: &[&str]) -> Option<World> {
    let (world, service) = world("native", transport)?;
    let outside = world.sandbox.outside();
    let mut open = outside.enter(|| Open::new(service.node_port(), transport));
    let first = open.ask();
    let lasting = Lasting::start(&world, &service);
    lasting.some();
    let before = taken(&world.agent);
    assert!(before > 50, "{before}");
    let unattended = world.killed();
    lasting.some();
    assert_eq!(open.ask().peer, first.peer, "without an agent");
    let mut world = unattended.start(flags);
    lasting.some();
    world.apply(&resync_with(&[service.json()]));
    assert!(world.agent.log().contains("XDP program replaced"));
    let between = taken(&world.agent);
    assert!(between > before + 2 * 50, "{before}, {between}");
    lasting.some();
    assert_eq!(open.ask().peer, first.peer, "after it");
    let after = taken(&world.agent);
    // Most of the requests and replies: a datagram from a port that had asked before this agent came
    // has TC look whether its backend is still the right one.
    assert!(after >= between + 50, "{between}, {after}");
    lasting.end();
    Some(world)
}

#[test]
fn requests_go_on_by_the_drivers_while_an_agent_is_killed_and_the_next_one_starts() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let flags = flags("native");
        takes_over(transport, &flags.each_ref().map(String::as_str));
    }
}

#[test]
fn requests_go_on_while_connections_are_handed_over_to_the_next_agents_tables() {
    let [mode, uplinks] = flags("native");
    let flags = [&mode, &uplinks, "--max-conntrack", "100000"];
    let Some(world) = takes_over(Transport::Tcp, &flags) else {
        return;
    };
    let status = status(&world.agent);
    let tables = status["tables"].as_array().unwrap();
    let table = tables.iter().find(|table| table["name"] == "conntrack_v4");
    assert_eq!(table.unwrap()["capacity"], 100_000);
}
