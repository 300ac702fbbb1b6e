//! Packets in transit, forwarded where the driver has them. veth pairs have drivers too: at their far
//! ends checksums are whole and packets come one by one, as they do from a wire.

use serde_json::Value;
use shunt_tests::{Agent, Namespace, Transport, has_program, run};

use crate::{
    command::shunt_at,
    dsr_world::{self, A},
    dual_stack::Family,
    service::Service,
    world::{REQUEST, World, all_answered_outside},
};

pub(crate) const TIMES: u32 = 30;

/// Number of packets that may go to TC instead, so that the kernel probes stale neighbours: one of each way in ten
/// seconds, on each processor.
const PROBING: u64 = 16;

/// The flags of an agent with XDP.
pub(crate) fn flags(mode: &str) -> [String; 2] {
    [format!("--xdp={mode}"), "--xdp-interface=eth*".to_owned()]
}

/// A world with XDP, whose service has its only backend on the other node, which knows no way to
/// the client outside.
pub(crate) fn world(mode: &str, transport: Transport) -> Option<(World, Service)> {
    if !has_ethtool() {
        return None;
    }
    let flags = flags(mode);
    let mut world = World::with_flags(&flags.each_ref().map(String::as_str))?;
    let (node2, outside) = (world.sandbox.node2(), world.sandbox.outside());
    node2.configure("route del default\n").unwrap();
    for far_end in [node2, outside] {
        as_from_a_wire(far_end, "eth0");
    }
    let service = Service::new(transport).backend(world.backend("pod-d"));
    world.add(&service);
    Some((world, service))
}

/// Returns whether ends of pairs can be made like those of wires; skips the test if not.
pub(crate) fn has_ethtool() -> bool {
    has_program("ethtool")
}

/// Has the far end of a pair send what a wire would bring, and take what a driver sends.
pub(crate) fn as_from_a_wire(far_end: &Namespace, interface: &str) {
    let features = ["tx", "off", "tso", "off", "gso", "off", "gro", "on"];
    let command = ["netns", "exec", far_end.name(), "ethtool", "-K", interface];
    run("ip", &[&command[..], &features].concat()).unwrap();
}

pub(crate) fn status(agent: &Agent) -> Value {
    shunt_at(agent.socket(), &["status", "-o", "json"], "").json()
}

/// Returns the number of packets that got no further than the drivers.
pub(crate) fn taken(agent: &Agent) -> u64 {
    status(agent)["counters"]["xdp"].as_u64().unwrap()
}

/// Returns an uplink's state in the status, and the reason for it.
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
        let least = u64::from(4 * TIMES) - PROBING;
        assert!(taken >= least, "{mode}: {taken} packets");
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
fn a_node_with_one_uplink_sends_back_by_it_what_came_in_by_it() {
    for (mode, transport) in [
        ("native", Transport::Tcp),
        ("native", Transport::Udp),
        ("generic", Transport::Tcp),
    ] {
        let Some(world) = dsr_world::World::new(transport, "snat", mode) else {
            return;
        };
        for family in Family::BOTH {
            let ask = |port: u16| {
                let target = world.target(family).from_port(port);
                world.client.enter(|| target.ask(REQUEST)).unwrap()
            };
            // The first one finds the next hops.
            ask(30_000);
            let before = world.counted(A, "xdp");
            for port in 30_001..30_001 + TIMES as u16 {
                assert_eq!(ask(port).peer.ip(), family.of(A.address()));
            }
            // A request and a reply each at least, by the only uplink that there is.
            let taken = world.counted(A, "xdp") - before;
            let least = u64::from(2 * TIMES) - PROBING;
            assert!(taken >= least, "{mode} {family:?}: {taken}");
        }
    }
}
