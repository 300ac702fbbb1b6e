//! `--masquerade-external`: pods with a way out of their own, as Multus, a VPN in the pod or a guest has it.

use std::{net::SocketAddr, time::Duration};

use serde_json::json;
use shunt_tests::{ForeignSources, Target, Transport, addresses, wait_until};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    service::Service,
    world::{REQUEST, World, all_answered_outside},
    xdp,
};

const TRANSPORTS: [Transport; 2] = [Transport::Tcp, Transport::Udp];

/// Number of connections to make.
const SOME: u32 = 20;

/// Patience of a client that is not answered.
const SHORT: Duration = Duration::from_millis(300);

/// Time until the agent has looked at its backends' interfaces again, and room.
const SEEN: Duration = Duration::from_secs(20);

/// A world of both families, once the programs are at the backend's interface.
fn world(flags: &[&str]) -> Option<World> {
    let world = world_with_flags(flags)?;
    world.wait_for_interfaces(&["eth0", "eth1", "pod-a"]);
    Some(world)
}

/// Gives `pod-a` a second interface, by which all its packets leave but those for the node and its pods. Nothing comes
/// back from there.
fn second_way(world: &World) {
    let [node, gateway] = [addresses::NODE, "10.1.1.254".parse().unwrap()];
    let [node_v6, gateway_v6] = [node, gateway].map(addresses::v6);
    let (pods, pods_v6) = (addresses::POD_CIDR, addresses::POD_CIDR_V6);
    let pod = world.sandbox.pod("pod-a").namespace();
    pod.configure(&format!(
        "link add net1 type veth peer name net2\n\
         address add 172.21.0.1/24 dev net1\n\
         address add fd00:172:21::1/64 dev net1 nodad\n\
         link set net1 up\n\
         link set net2 up\n\
         neighbour add 172.21.0.2 lladdr 02:00:00:00:00:99 dev net1 nud permanent\n\
         neighbour add fd00:172:21::2 lladdr 02:00:00:00:00:99 dev net1 nud permanent\n\
         route add {node}/32 via {gateway} dev eth0\n\
         route add {pods} via {gateway} dev eth0\n\
         route replace default via 172.21.0.2 dev net1\n\
         route add {node_v6}/128 via {gateway_v6} dev eth0\n\
         route add {pods_v6} via {gateway_v6} dev eth0\n\
         route replace ::/0 via fd00:172:21::2 dev net1\n"
    ))
    .unwrap();
    // What comes from elsewhere reaches the pod all the same.
    for interface in ["all", "eth0"] {
        let setting = format!("net/ipv4/conf/{interface}/rp_filter");
        pod.set(&setting, "0").unwrap();
    }
}

/// Clients outside are answered, and backends on this node see the node.
#[track_caller]
fn sees_the_node(world: &World, target: Target, family: Family) {
    let outside = world.sandbox.outside();
    let tally = outside.enter(|| target.ask_times(SOME, REQUEST));
    assert!(tally.failures.is_empty(), "{target:?}: {tally:#?}");
    let backend = family.backend(world, "pod-a");
    let source = (backend, family.of(addresses::NODE));
    let expected = ForeignSources::from([(source, SOME.into())]);
    assert_eq!(tally.foreign_sources, expected, "{target:?}");
}

/// The service, which decides about its masquerading itself.
fn deciding(service: &Service, masquerade: bool) -> String {
    let mut service = service.json();
    service["masquerade"] = masquerade.into();
    json!({ "event": "UpdateService", "service": service }).to_string()
}

/// Clients outside and pods are served by a pod that answers only the node and its pods.
fn serves_by_the_node(world: &mut World) {
    second_way(world);
    for transport in TRANSPORTS {
        let service = service(world, transport, &["pod-a"]);
        world.update(&service);
        for family in Family::BOTH {
            for target in [service.node_port(), service.external_ip()] {
                let target = family.target(target);
                sees_the_node(world, target, family);
                // A pod of this node keeps its address.
                world.ask_from_pod(target, SOME);
            }
        }
        // The control, and the way back.
        let target = service.external_ip();
        world.apply(&deciding(&service, false));
        let outside = world.sandbox.outside();
        outside
            .enter(|| target.within(SHORT).ask(REQUEST))
            .unwrap_err();
        world.apply(&deciding(&service, true));
        sees_the_node(world, target, Family::V4);
    }
}

#[test]
fn a_pod_with_a_way_out_of_its_own_answers_by_the_node() {
    for further in [&[][..], &["--redirect"]] {
        let flags = [&["--masquerade-external"], further].concat();
        let Some(mut world) = world(&flags) else {
            return;
        };
        serves_by_the_node(&mut world);
    }
}

#[test]
fn a_pod_with_a_way_out_of_its_own_answers_by_the_node_with_xdp_at_the_uplinks() {
    if !xdp::has_ethtool() {
        return;
    }
    let [mode, interface] = xdp::flags("native");
    let Some(mut world) = world(&["--masquerade-external", &mode, &interface]) else {
        return;
    };
    xdp::as_from_a_wire(world.sandbox.outside(), "eth0");
    serves_by_the_node(&mut world);
}

#[test]
fn an_open_connection_outlives_a_change_of_masquerading() {
    let Some(mut world) = world(&[]) else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    let target = service.external_ip();
    for (before, after) in [(true, false), (false, true)] {
        world.apply(&deciding(&service, before));
        let outside = world.sandbox.outside();
        let mut connection = outside.enter(|| target.connect()).unwrap();
        let peer = connection.echo(REQUEST).unwrap().peer;
        world.apply(&deciding(&service, after));
        assert_eq!(connection.echo(REQUEST).unwrap().peer, peer, "{before}");
        let backend: SocketAddr = world.backend("pod-a");
        let tally = world
            .sandbox
            .outside()
            .enter(|| target.ask_times(SOME, REQUEST));
        assert_eq!(tally.of(backend), u64::from(SOME), "{tally:#?}");
        let sees_the_client = tally.foreign_sources.is_empty();
        assert_eq!(sees_the_client, !after, "{tally:#?}");
    }
}

/// The complaint of the status about interfaces of backends.
fn complaint(world: &World) -> Option<String> {
    let status = world.shunt(&["status", "-o", "json"]).json();
    let host: Vec<String> = serde_json::from_value(status["host"].clone()).unwrap();
    host.into_iter()
        .find(|line| line.contains("are not masqueraded"))
}

#[test]
fn a_backend_behind_an_interface_without_programs_sees_the_client_and_is_named() {
    let Some(mut world) = world(&["--masquerade-external"]) else {
        return;
    };
    let choose = |world: &mut World, interfaces: &[&str]| {
        for (event, names) in [
            ("UpdateLocalFrontendIfs", interfaces),
            ("UpdateLocalBackendIfs", &[]),
        ] {
            world.apply(&json!({ "event": event, "new": names }).to_string());
        }
    };
    choose(&mut world, &["eth0", "eth1"]);
    let service = service(&world, Transport::Tcp, &["pod-a"]);
    world.add(&service);
    for family in Family::BOTH {
        let target = family.target(service.node_port());
        all_answered_outside(world.sandbox.outside(), target, SOME);
    }
    let named = wait_until("the interface is named", SEEN, || complaint(&world)).unwrap();
    assert!(named.contains("behind pod-a "), "{named}");
    choose(&mut world, &["eth0", "eth1", "pod-a"]);
    world.wait_for_interfaces(&["pod-a"]);
    for family in Family::BOTH {
        sees_the_node(&world, family.target(service.node_port()), family);
    }
    wait_until("nothing is named any more", SEEN, || {
        complaint(&world).is_none().then_some(())
    })
    .unwrap();
}

#[test]
fn services_shows_where_masquerading_has_no_effect() {
    let Some(mut world) = world(&["--masquerade-external"]) else {
        return;
    };
    let mut service = service(&world, Transport::Tcp, &["pod-a"]).json();
    for (forwarding, expected) in [("snat", "on"), ("dsr", "not in dsr")] {
        service["forwarding"] = forwarding.into();
        world.apply(&json!({ "event": "UpdateService", "service": service }).to_string());
        let shown = world.shunt(&["services", "-o", "json"]).json();
        let frontends = shown.as_array().unwrap();
        for frontend in frontends {
            let is_own = frontend["kind"] == "ExternalIP";
            let expected = if is_own { expected } else { "off" };
            let is_node_port = frontend["kind"] == "NodePort";
            assert!(
                is_node_port || frontend["masquerade"] == expected,
                "{frontend}"
            );
        }
    }
}
