//! Clients outside whose backend is on the other node: they go on under this node's address, and
//! this node forwards both directions.

use std::net::SocketAddr;

use shunt_tests::{Answer, Connection, Flow, Server, Target, Transport, addresses, run};

use crate::{
    attack::snapshot,
    dual_stack::{self, Family},
    service::Service,
    world::{REQUEST, SERVED, World, all_answered_outside},
};

const TIMES: u32 = 50;

/// A world with a service whose only backend is on the other node. That node knows no way to the
/// client outside.
fn world(transport: Transport) -> Option<(World, Service)> {
    let mut world = World::new()?;
    world
        .sandbox
        .node2()
        .configure("route del default\n")
        .unwrap();
    let service = Service::new(transport).backend(world.backend("pod-d"));
    world.add(&service);
    Some((world, service))
}

/// The backend saw this node, at a port of the range.
#[track_caller]
fn assert_from_this_node(answer: &Answer) {
    let Answer { peer, .. } = answer;
    assert_eq!(peer.ip(), addresses::NODE, "{answer:?}");
    assert!((1024..30_000).contains(&peer.port()), "{answer:?}");
}

/// A client's open flow.
pub(crate) enum Open {
    Tcp(Connection),
    Udp(Flow),
}

impl Open {
    pub(crate) fn new(target: Target, transport: Transport) -> Self {
        match transport {
            Transport::Tcp => Self::Tcp(target.connect().unwrap()),
            Transport::Udp => Self::Udp(target.flow().unwrap()),
        }
    }

    #[track_caller]
    pub(crate) fn ask(&mut self) -> Answer {
        match self {
            Self::Tcp(connection) => connection.echo(REQUEST).unwrap(),
            Self::Udp(flow) => flow.ask(REQUEST).unwrap(),
        }
    }
}

#[test]
fn a_remote_backend_needs_no_way_to_the_client() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((world, service)) = world(transport) else {
            return;
        };
        let outside = world.sandbox.outside();
        for target in [service.node_port(), service.external_ip()] {
            let tally = all_answered_outside(outside, target, TIMES);
            assert_eq!(tally.of(world.backend("pod-d")), u64::from(TIMES));
            assert_from_this_node(&outside.enter(|| target.ask(REQUEST).unwrap()));
        }
    }
}

#[test]
fn a_flow_to_a_remote_backend_survives_agents() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((world, service)) = world(transport) else {
            return;
        };
        let outside = world.sandbox.outside();
        let mut open = outside.enter(|| Open::new(service.node_port(), transport));
        let first = open.ask();
        assert_from_this_node(&first);
        let unattended = world.killed();
        assert_eq!(open.ask().peer, first.peer, "without an agent");
        all_answered_outside(unattended.sandbox.outside(), service.node_port(), TIMES);
        let mut world = unattended.start(&[]);
        assert_eq!(open.ask().peer, first.peer, "before its first event");
        world.apply(&crate::world::resync_with(&[service.json()]));
        assert_eq!(open.ask().peer, first.peer, "after it");
        all_answered_outside(world.sandbox.outside(), service.node_port(), TIMES);
    }
}

#[test]
fn next_hops_are_found_when_they_are_needed() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((world, service)) = world(transport) else {
            return;
        };
        let outside = world.sandbox.outside();
        let forget = || {
            let flush = "neigh flush dev eth0\nneigh flush dev eth1\n";
            world.sandbox.node().configure(flush).unwrap();
        };
        let mut open = outside.enter(|| Open::new(service.external_ip(), transport));
        for _ in 0..3 {
            // Neither the request nor the answer finds one.
            forget();
            assert_from_this_node(&open.ask());
            forget();
            all_answered_outside(outside, service.node_port(), 3);
        }
    }
}

#[test]
fn both_sides_learn_how_long_packets_may_be() {
    const LENGTH: u64 = 10 << 20;

    let Some((world, service)) = world(Transport::Tcp) else {
        return;
    };
    // Shorter than what the two ends agree on, in either direction.
    let (node2, outside) = (addresses::NODE2, addresses::OUTSIDE);
    let routes = format!(
        "route replace 10.1.2.0/24 via {node2} mtu lock 1400\n\
         route add {outside} dev eth0 mtu lock 1300\n"
    );
    world.sandbox.node().configure(&routes).unwrap();
    world.sandbox.outside().enter(|| {
        let mut connection = service.node_port().connect().unwrap();
        for outcome in [connection.send(LENGTH), connection.fetch(LENGTH)] {
            assert_from_this_node(&outcome.unwrap());
        }
    });
    for (namespace, towards, mtu) in [
        (world.sandbox.outside(), addresses::NODE, "1400"),
        (
            world.sandbox.pod("pod-d").namespace(),
            addresses::NODE,
            "1300",
        ),
    ] {
        let towards = towards.to_string();
        let route = run("ip", &["-n", namespace.name(), "route", "get", &towards]).unwrap();
        assert!(route.contains(&format!("mtu {mtu}")), "{route}");
    }
}

#[test]
fn a_host_network_pod_elsewhere_that_is_its_own_backend_sees_this_node() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = dual_stack::world() else {
            return;
        };
        let node2 = world.sandbox.node2();
        let both = Family::BOTH.map(|family| family.of(addresses::NODE2));
        let _server = Server::start(node2, "node2", &both, &[SERVED]).unwrap();
        let service = both
            .iter()
            .map(|ip| SocketAddr::new(*ip, SERVED))
            .fold(Service::new(transport).dual_stack(), Service::backend);
        let mut json = service.json();
        for backend in json["backends"]["main"].as_array_mut().unwrap() {
            backend["local"] = false.into();
            backend["host_network"] = true.into();
        }
        world.apply(&snapshot(&[json]));
        for family in Family::BOTH {
            let target = family.target(service.node_port_at(addresses::NODE));
            let answer = world.sandbox.node2().enter(|| {
                let mut open = Open::new(target, transport);
                open.ask();
                open.ask()
            });
            let node = family.of(addresses::NODE);
            assert_eq!(answer.peer.ip(), node, "no hairpin address: {answer:?}");
            assert_eq!(answer.backend.ip(), family.of(addresses::NODE2));
        }
    }
}
