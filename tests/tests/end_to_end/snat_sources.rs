//! A node with several networks: connections to another node go on from the address that the kernel prefers there.

use std::{
    net::{IpAddr, Ipv4Addr},
    time::Duration,
};

use serde_json::{Value, json};
use shunt_tests::{Sandbox, Target, Transport, addresses, wait_until};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    service::Service,
    snat::Open,
    world::{REQUEST, World, resync_with},
    xdp::{as_from_a_wire, flags, has_ethtool},
};

/// This node's address in a network to which the other node knows no way: its lowest.
const LOWEST: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 10));
/// Its second address in the network of the other node.
pub(crate) const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 168, 16, 11));

/// Time that the agent may take to see a route.
const SOON: Duration = Duration::from_secs(5);

const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// A world whose other node hosts the services' backend and knows no way to any host outside its network. The events
/// name both addresses of this node.
fn world(flags: &[&str]) -> Option<(World, [Service; 2])> {
    let mut world = world_with_flags(flags)?;
    add(&world.sandbox, LOWEST, "dev eth0");
    add_second(&world.sandbox);
    let node2 = world.sandbox.node2();
    node2
        .configure("route del default\nroute del ::/0\n")
        .unwrap();
    let services = TRANSPORTS.map(|transport| service(&world, transport, &["pod-d"]));
    let json = services.each_ref().map(|service| {
        let mut json = service.json();
        let name = json["ports"]["main"]["protocol"].clone();
        json["id"]["name"] = name.as_str().unwrap().to_lowercase().into();
        json
    });
    let mut event: Value = serde_json::from_str(&resync_with(&json)).unwrap();
    let nodes = [LOWEST, addresses::NODE, SECOND, addresses::NODE2];
    event["node_ips"] = json!([nodes, nodes.map(addresses::v6)].concat());
    world.apply(&event.to_string());
    Some((world, services))
}

/// Adds to this node a second address in the network of the other one. Of two the kernel prefers one that is not
/// deprecated.
pub(crate) fn add_second(sandbox: &Sandbox) {
    add(sandbox, SECOND, "dev eth1 preferred_lft 0");
}

/// Adds to this node an address, and the one of the same digits.
fn add(sandbox: &Sandbox, address: IpAddr, place: &str) {
    let v6 = addresses::v6(address);
    let both = format!("address add {address}/24 {place}\naddress add {v6}/64 {place} nodad\n");
    sandbox.node().configure(&both).unwrap();
}

/// Has the node's way to the other one's pods prefer a source.
pub(crate) fn prefer(sandbox: &Sandbox, source: IpAddr) {
    for family in Family::BOTH {
        let (via, source) = (family.of(addresses::NODE2), family.of(source));
        let pods = match family {
            Family::V4 => "10.1.2.0/24",
            Family::V6 => "fd00:10:1:2::/64",
        };
        let route = format!("route replace {pods} via {via} dev eth1 src {source}\n");
        sandbox.node().configure(&route).unwrap();
    }
}

/// Waits until a new client's backend sees this address.
#[track_caller]
fn soon_from(world: &World, target: Target, source: IpAddr) {
    wait_until(
        "SNAT gives the address that the kernel prefers",
        SOON,
        || {
            let answer = world.sandbox.outside().enter(|| target.ask(REQUEST));
            answer.ok().filter(|answer| answer.peer.ip() == source)
        },
    )
    .unwrap();
}

#[test]
fn connections_go_on_from_the_address_that_the_kernel_prefers() {
    follows_routes(&[]);
}

#[test]
fn connections_that_drivers_send_on_go_on_from_the_address_that_the_kernel_prefers() {
    if has_ethtool() {
        let flags = flags("native");
        follows_routes(&flags.each_ref().map(String::as_str));
    }
}

fn follows_routes(flags: &[&str]) {
    let Some((world, services)) = world(flags) else {
        return;
    };
    let targets = || {
        let services = services.iter().zip(TRANSPORTS);
        services.flat_map(|(service, transport)| {
            Family::BOTH.map(|family| (family, transport, family.target(service.node_port())))
        })
    };
    let outside = world.sandbox.outside();
    if !flags.is_empty() {
        for far_end in [world.sandbox.node2(), outside] {
            as_from_a_wire(far_end, "eth0");
        }
    }
    let mut open = Vec::new();
    for (family, transport, target) in targets() {
        let mut connection = outside.enter(|| Open::new(target, transport));
        let answer = connection.ask();
        assert_eq!(answer.peer.ip(), family.of(addresses::NODE), "{target:?}");
        open.push((connection, answer));
    }
    prefer(&world.sandbox, SECOND);
    for (family, _, target) in targets() {
        soon_from(&world, target, family.of(SECOND));
    }
    // What is open stays as it was, also with the next agent; new ones go on as the last ones did.
    let world = world.killed().start(flags);
    for (connection, first) in &mut open {
        let answer = connection.ask();
        assert_eq!((answer.peer, answer.backend), (first.peer, first.backend));
    }
    for (family, _, target) in targets() {
        let answer = world
            .sandbox
            .outside()
            .enter(|| target.ask(REQUEST))
            .unwrap();
        assert_eq!(answer.peer.ip(), family.of(SECOND), "{target:?}");
    }
    prefer(&world.sandbox, addresses::NODE);
    for (family, _, target) in targets() {
        soon_from(&world, target, family.of(addresses::NODE));
    }
}

#[test]
fn a_setting_says_from_where_connections_go_on() {
    let second = SECOND.to_string();
    let second_v6 = addresses::v6(SECOND).to_string();
    let flags = ["--snat-ip", &second, "--snat-ip", &second_v6];
    let Some((world, services)) = world(&flags) else {
        return;
    };
    for family in Family::BOTH {
        for service in &services {
            let target = family.target(service.node_port());
            soon_from(&world, target, family.of(SECOND));
        }
    }
}
