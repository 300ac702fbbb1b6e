//! Pods of network plugins: behind a bridge, and with a route each. Interfaces that have to be named.

use std::{collections::BTreeSet, net::IpAddr, time::Duration};

use serde_json::json;
use shunt_tests::{Transport, addresses};

use crate::{
    cni_world::{CniPod, asked, bridged_pods, routed_pod},
    service::Service,
    world::{REQUEST, World},
};

/// For a connection that is not answered.
const SHORT: Duration = Duration::from_millis(300);

pub(crate) fn names(seen: &[(String, IpAddr)]) -> BTreeSet<&str> {
    seen.iter().map(|(name, _)| name.as_str()).collect()
}

/// A world whose interfaces are those that the flags mean, and no others.
pub(crate) fn world(flags: &[&str]) -> Option<World> {
    let mut world = World::with_flags(flags)?;
    world.apply(&json!({ "event": "UpdateLocalFrontendIfs", "new": [] }).to_string());
    Some(world)
}

/// The service with the pods as backends, and one on the other node.
pub(crate) fn service(world: &World, transport: Transport, pods: &[&CniPod]) -> Service {
    let service = Service::new(transport).backend(world.backend("pod-d"));
    pods.iter()
        .map(|pod| (pod.address, crate::world::SERVED).into())
        .fold(service, Service::backend)
}

/// Clients of all kinds reach all backends, which see the pods' own addresses.
pub(crate) fn serves_everybody(
    world: &mut World,
    server: &CniPod,
    client: &CniPod,
    all: [&str; 3],
) {
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = service(world, transport, &[server, client]);
        world.add(&service);
        for pod in [server, client] {
            let frontends = [
                service.cluster_ip(),
                service.external_ip(),
                service.node_port(),
            ];
            for target in frontends {
                let seen = pod.ask(target, 40);
                assert_eq!(names(&seen), all.into(), "{target:?}");
                for (name, peer) in seen {
                    // A pod that reaches itself sees the hairpin address.
                    let is_itself =
                        name != "pod-d" && peer == "169.254.254.1".parse::<IpAddr>().unwrap();
                    assert!(is_itself || peer == pod.address, "{name} saw {peer}");
                }
            }
        }
        let outside = world.sandbox.outside();
        for target in [service.external_ip(), service.node_port()] {
            let seen = asked(outside, target, 40);
            assert_eq!(names(&seen), all.into(), "{target:?}");
            for (name, peer) in seen {
                let expected = if name == "pod-d" {
                    addresses::NODE
                } else {
                    addresses::OUTSIDE
                };
                assert_eq!(peer, expected, "{name}");
            }
        }
        world.apply(&Service::delete());
    }
}

#[test]
fn pods_behind_a_bridge_are_served_by_auto_and_by_the_names_of_its_ports() {
    for interfaces in [
        &["--interface", "auto"][..],
        &["--interface", "port*", "--interface", "eth*"],
        &[
            "--interface",
            "port*",
            "--interface",
            "cni0",
            "--interface",
            "eth*",
        ],
    ] {
        let flags = [&["--pod-cidr", "10.1.3.0/24"], interfaces].concat();
        let Some(mut world) = world(&flags) else {
            return;
        };
        let [server, client] = bridged_pods(&world, &["port-a", "port-b"]);
        serves_everybody(&mut world, &server, &client, ["pod-d", "port-a", "port-b"]);
    }
}

#[test]
fn a_bridge_without_its_ports_does_not_see_the_replies_of_pods_to_each_other() {
    let flags = [
        "--pod-cidr",
        "10.1.3.0/24",
        "--interface",
        "cni0",
        "--interface",
        "eth*",
    ];
    let Some(mut world) = world(&flags) else {
        return;
    };
    let [server, client] = bridged_pods(&world, &["cni0"]);
    let service =
        Service::new(Transport::Tcp).backend((server.address, crate::world::SERVED).into());
    world.add(&service);
    let outcome = client
        .namespace()
        .enter(|| service.cluster_ip().within(SHORT).ask(REQUEST));
    assert!(outcome.is_err(), "{outcome:?}");
    // What is routed is seen.
    let seen = asked(world.sandbox.outside(), service.external_ip(), 5);
    assert_eq!(names(&seen), ["port-a"].into());
}

#[test]
fn pods_with_a_route_each_are_served_by_auto_and_by_the_names_of_their_interfaces() {
    for interfaces in [
        &["--interface", "auto"][..],
        &["--interface", "cali*", "--interface", "eth*"],
    ] {
        let flags = [&["--pod-cidr", "10.1.4.0/24"], interfaces].concat();
        let Some(mut world) = world(&flags) else {
            return;
        };
        let server = routed_pod(&world, "cali1", "10.1.4.3");
        let client = routed_pod(&world, "cali2", "10.1.4.4");
        world.wait_for_interfaces(&["cali1", "cali2"]);
        serves_everybody(&mut world, &server, &client, ["cali1", "cali2", "pod-d"]);
    }
}

#[test]
fn a_machine_on_a_bridge_that_the_uplink_is_a_port_of_is_a_client_at_the_bridge() {
    let Some(mut world) = world(&["--interface", "auto"]) else {
        return;
    };
    // The uplink becomes a port, and the bridge has its address.
    let node = world.sandbox.node();
    node.configure(
        "link add br0 type bridge\n\
         link set br0 address 02:00:00:00:00:01\n\
         link set br0 up\n\
         address flush dev eth0\n\
         link set eth0 master br0\n\
         address add 198.51.100.1/24 dev br0\n",
    )
    .unwrap();
    world.wait_for_interfaces(&["br0"]);
    let service = Service::new(Transport::Tcp)
        .backend(world.backend("pod-a"))
        .backend(world.backend("pod-d"));
    world.add(&service);
    let seen = asked(world.sandbox.outside(), service.external_ip(), 40);
    assert_eq!(names(&seen), ["pod-a", "pod-d"].into());
}
