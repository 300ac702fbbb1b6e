//! Packets in transit, forwarded where the driver has them. veth pairs have drivers too: at their far
//! ends checksums are whole and packets come one by one, as they do from a wire.

use serde_json::Value;
use shunt_tests::{Agent, Namespace, Transport, run};

use crate::{
    command::shunt_at,
    service::Service,
    snat::Open,
    world::{World, all_answered_outside, resync_with},
};

pub(crate) const TIMES: u32 = 30;

/// The flags of an agent with XDP.
pub(crate) fn flags(mode: &str) -> [String; 2] {
    [format!("--xdp={mode}"), "--xdp-interface=eth*".to_owned()]
}

/// A world with XDP, whose service has its only backend on the other node, which knows no way to
/// the client outside.
pub(crate) fn world(mode: &str, transport: Transport) -> Option<(World, Service)> {
    if run("ethtool", &["--version"]).is_err() {
        eprintln!("skipped: needs ethtool");
        return None;
    }
    let flags = flags(mode);
    let mut world = World::with_flags(&flags.each_ref().map(String::as_str))?;
    let (node2, outside) = (world.sandbox.node2(), world.sandbox.outside());
    node2.configure("route del default\n").unwrap();
    for far_end in [node2, outside] {
        as_from_a_wire(far_end);
    }
    let service = Service::new(transport).backend(world.backend("pod-d"));
    world.add(&service);
    Some((world, service))
}

/// Has the far end of a pair send what a wire would bring, and take what a driver sends.
fn as_from_a_wire(far_end: &Namespace) {
    let features = ["tx", "off", "tso", "off", "gso", "off", "gro", "on"];
    let command = ["netns", "exec", far_end.name(), "ethtool", "-K", "eth0"];
    run("ip", &[&command[..], &features].concat()).unwrap();
}

pub(crate) fn status(agent: &Agent) -> Value {
    shunt_at(agent.socket(), &["status", "-o", "json"], "").json()
}

/// How many packets got no further than the drivers.
pub(crate) fn taken(agent: &Agent) -> u64 {
    status(agent)["counters"]["xdp"].as_u64().unwrap()
}

/// What the status says of an uplink: its state, and why it is so.
pub(crate) fn uplink(agent: &Agent, name: &str) -> (String, String) {
    let status = status(agent);
    let uplinks = status["uplinks"].as_array().unwrap();
    let uplink = uplinks.iter().find(|uplink| uplink["name"] == name);
    let uplink = uplink.unwrap_or_else(|| panic!("no uplink {name}: {uplinks:?}"));
    let text = |field: &str| uplink[field].as_str().unwrap_or_default().to_owned();
    (text("state"), text("reason"))
}

#[test]
fn a_flow_in_transit_is_forwarded_by_the_drivers() {
    forwarded("native");
}

#[test]
fn a_flow_in_transit_is_forwarded_before_the_stack_where_drivers_cannot() {
    forwarded("generic");
}

fn forwarded(mode: &str) {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((world, service)) = world(mode, transport) else {
            return;
        };
        let outside = world.sandbox.outside();
        for name in ["eth0", "eth1"] {
            assert_eq!(uplink(&world.agent, name), (mode.to_owned(), String::new()));
        }
        // The first ones find the next hops.
        all_answered_outside(outside, service.node_port(), 3);
        let before = taken(&world.agent);
        for target in [service.node_port(), service.external_ip()] {
            let tally = all_answered_outside(outside, target, TIMES);
            assert_eq!(tally.of(world.backend("pod-d")), u64::from(TIMES));
        }
        // A request and an answer each at least.
        let taken = taken(&world.agent) - before;
        assert!(taken >= u64::from(4 * TIMES), "{mode}: {taken} packets");
    }
}

#[test]
fn many_bytes_arrive_whole_by_the_drivers() {
    const LENGTH: u64 = 4 << 20;

    for mode in ["native", "generic"] {
        let Some((world, service)) = world(mode, Transport::Tcp) else {
            return;
        };
        world.sandbox.outside().enter(|| {
            let mut connection = service.node_port().connect().unwrap();
            connection.send(LENGTH).unwrap();
            connection.fetch(LENGTH).unwrap();
        });
        // At most 1448 bytes each, in either direction.
        let taken = taken(&world.agent);
        assert!(taken >= 2 * LENGTH / 1500, "{mode}: {taken} packets");
    }
}

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
        let mut world = unattended.start(&flags);
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
