//! Datagrams to a pod itself, from ports whose datagrams reach the same pod through a service too: DNS by a ClusterIP
//! and by a headless service, for example.

use std::net::{IpAddr, SocketAddr};

use shunt_tests::{Failure, Flow, Namespace, Target, Transport, addresses, by_length, rulesets};

use crate::{
    cni::world as cni_world,
    cni_world::bridged_pods,
    control,
    dual_stack::{Family, service, world_with_flags},
    service::Service,
    world::{REQUEST, SERVED},
};

const PORT: u16 = 12_000;

/// So few ports for ordinary sockets that a port's next one is of the other kind soon.
const FEW_PORTS: &str = "41000 41031";

/// The flags under which packets take other ways.
const WAYS: [&[&str]; 2] = [&[], &["--redirect"]];

fn requests() -> usize {
    by_length(200, 10_000)
}

/// The numbers of the requests that get no answer from sockets of one port, in turn, and why.
fn lost_from_one_port(client: &Namespace, targets: [Target; 2]) -> Vec<(usize, Failure)> {
    client.enter(|| {
        let flows: [Flow; 2] = targets.map(|target| target.from_port(PORT).flow().unwrap());
        let asked = flows.iter().cycle().take(2 * requests()).enumerate();
        asked
            .filter_map(|(number, flow)| Some((number, flow.ask(REQUEST).err()?)))
            .collect()
    })
}

/// The same of new sockets for each request.
fn lost_from_new_sockets(client: &Namespace, targets: [Target; 2]) -> Vec<(usize, Failure)> {
    client
        .set("net/ipv4/ip_local_port_range", FEW_PORTS)
        .unwrap();
    client.enter(|| {
        let asked = targets.iter().cycle().take(2 * requests()).enumerate();
        asked
            .filter_map(|(number, target)| Some((number, target.ask(REQUEST).err()?)))
            .collect()
    })
}

/// Through a service first, and to its backend first.
fn orders(through: Target, direct: SocketAddr) -> [[Target; 2]; 2] {
    let direct = Target::udp(direct);
    [[through, direct], [direct, through]]
}

#[test]
fn one_udp_port_may_use_a_service_and_its_backend_in_turn() {
    for flags in WAYS {
        let Some(mut world) = world_with_flags(flags) else {
            return;
        };
        let web = service(&world, Transport::Udp, &["pod-a"]);
        for family in Family::BOTH {
            let through = family.target(web.cluster_ip());
            for targets in orders(through, family.backend(&world, "pod-a")) {
                world.update(&web);
                let lost = lost_from_one_port(world.client_pod(), targets);
                assert!(lost.is_empty(), "{flags:?}: {targets:?}: {lost:?}");
                world.apply(&Service::delete());
            }
        }
    }
}

#[test]
fn udp_sockets_of_a_service_and_of_its_backend_may_get_one_port_after_the_other() {
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let web = service(&world, Transport::Udp, &["pod-a", "pod-d"]);
    world.update(&web);
    for family in Family::BOTH {
        let through = family.target(web.cluster_ip());
        // On this node, and on another one.
        for pod in ["pod-a", "pod-d"] {
            for targets in orders(through, family.backend(&world, pod)) {
                let lost = lost_from_new_sockets(world.client_pod(), targets);
                assert!(lost.is_empty(), "{targets:?}: {lost:?}");
            }
        }
    }
}

#[test]
fn an_outside_client_may_use_a_node_port_and_its_backend_from_one_udp_port() {
    let Some(mut world) = world_with_flags(&[]) else {
        return;
    };
    let web = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&web);
    for family in Family::BOTH {
        let through = family.target(web.node_port());
        for targets in orders(through, family.backend(&world, "pod-a")) {
            let lost = lost_from_one_port(world.sandbox.outside(), targets);
            assert!(lost.is_empty(), "{targets:?}: {lost:?}");
        }
    }
}

#[test]
fn a_services_packets_stay_its_own_at_a_bridge_and_at_its_port() {
    let interfaces = ["port*", "cni0", "eth*"].map(|name| ["--interface", name]);
    let flags = [&["--pod-cidr", "10.1.3.0/24"], interfaces.as_flattened()].concat();
    let Some(mut world) = cni_world(&flags) else {
        return;
    };
    let [client, _server] = bridged_pods(&world, &["cni0", "port-a", "port-b"]);
    let backend = world.backend("pod-d");
    let web = Service::new(Transport::Udp).backend(backend);
    world.add(&web);
    client.namespace().enter(|| {
        let through = web.cluster_ip().from_port(PORT).flow().unwrap();
        let direct = Target::udp(backend).from_port(PORT).flow().unwrap();
        for _ in 0..20 {
            assert_eq!(through.ask(REQUEST).unwrap().peer.port(), PORT);
            assert_ne!(direct.ask(REQUEST).unwrap().peer.port(), PORT);
        }
    });
    world.apply(&Service::delete());
    let web = Service::new(Transport::Tcp).backend(backend);
    world.add(&web);
    client.namespace().enter(|| {
        let mut through = web.cluster_ip().from_port(PORT).connect().unwrap();
        let first = through.echo(REQUEST).unwrap();
        let mut direct = Target::tcp(backend).from_port(PORT).connect().unwrap();
        for _ in 0..20 {
            assert_eq!(through.echo(REQUEST).unwrap().peer, first.peer);
            assert_ne!(direct.echo(REQUEST).unwrap().peer, first.peer);
        }
    });
}

#[test]
fn no_more_direct_datagrams_are_lost_than_with_nftables() {
    let pods: [IpAddr; 1] = [addresses::POD_A];
    let rules = rulesets::Service {
        protocol: Transport::Udp,
        ..control::web(&pods)
    };
    let Some(rules) = control::ruled(&[rules]) else {
        return;
    };
    let mut world = world_with_flags(&[]).unwrap();
    let web = service(&world, Transport::Udp, &["pod-a"]);
    world.update(&web);
    let direct = SocketAddr::new(addresses::POD_A, SERVED);
    for targets in orders(web.cluster_ip(), direct) {
        let theirs = lost_from_one_port(rules.pod("pod-c").namespace(), targets);
        let ours = lost_from_one_port(world.client_pod(), targets);
        println!("{targets:?}: {theirs:?} with nftables, {ours:?} here");
        assert!(ours.is_empty(), "{ours:?}");
    }
}
