//! Delivery in one hop: packets to pods of this node, and their replies, past the host's stack.

use std::time::Duration;

use serde_json::json;
use shunt_tests::{Namespace, Target, Transport, wait_until};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    path_mtu::transfer,
    service::Service,
    world::{REQUEST, SERVED, World, all_answered, all_answered_outside},
};

/// Number of connections to make where it does not matter.
const SOME: u32 = 200;

/// Number of packets of these that may go through the stack: until it knows a pod's neighbour.
const FEW: u64 = 20;

/// The address of the pod that these tests make, and of its gateway.
const POD: &str = "10.1.1.6";
const GATEWAY: &str = "10.1.1.254";

/// Time for which a flow may find no pod after its own has come back on another device.
const MOMENT: Duration = Duration::from_secs(1);

/// The interface lists of a node whose CNI names every pod in both.
fn interfaces(pods: &[&str]) -> [String; 2] {
    let mut frontend = vec!["eth0", "eth1"];
    frontend.extend(pods);
    [
        json!({ "event": "UpdateLocalFrontendIfs", "new": frontend }).to_string(),
        json!({ "event": "UpdateLocalBackendIfs", "new": pods }).to_string(),
    ]
}

fn world() -> Option<World> {
    world_with_flags(&["--redirect"])
}

/// Returns the number of packets of both families that a host's stack has forwarded.
pub(crate) fn forwarded(host: &Namespace) -> u64 {
    host.counter("IpForwDatagrams").unwrap() + host.counter("Ip6OutForwDatagrams").unwrap()
}

#[test]
fn packets_between_a_client_and_a_pod_of_this_node_do_not_pass_the_stack() {
    let Some(mut world) = world() else {
        return;
    };
    for transport in [Transport::Tcp, Transport::Udp] {
        let service = service(&world, transport, &["pod-a", "pod-b"]);
        world.update(&service);
        let outside = world.sandbox.outside();
        for family in Family::BOTH {
            let of_pod = [
                service.cluster_ip(),
                service.node_port(),
                service.external_ip(),
            ];
            let of_outside = [service.node_port(), service.external_ip()];
            // The neighbours.
            for target in of_pod {
                world.ask_from_pod(family.target(target), 5);
            }
            all_answered_outside(outside, family.target(of_outside[0]), 5);

            let before = forwarded(world.sandbox.node());
            for target in of_pod {
                world.ask_from_pod(family.target(target), SOME);
            }
            for target in of_outside {
                all_answered_outside(outside, family.target(target), SOME);
            }
            let through_stack = forwarded(world.sandbox.node()) - before;
            assert!(
                through_stack <= FEW,
                "{through_stack} packets of {transport} went through the stack"
            );
        }
    }
}

#[test]
fn many_bytes_arrive_whole_both_ways() {
    let Some(mut world) = world() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let clients = [
        (world.client_pod(), service.cluster_ip()),
        (world.sandbox.outside(), service.node_port()),
    ];
    for (client, target) in clients {
        client.enter(|| target.ask(REQUEST).unwrap());
        let before = forwarded(world.sandbox.node());
        transfer(client, target, 256 << 20);
        let through_stack = forwarded(world.sandbox.node()) - before;
        assert!(
            through_stack <= FEW,
            "{through_stack} went through the stack"
        );
    }
}

#[test]
fn a_pod_that_comes_back_on_another_device_is_found() {
    let Some(mut world) = world() else {
        return;
    };
    for event in interfaces(&["pod-a", "pod-b", "pod-c", "pod-e"]) {
        world.apply(&event);
    }
    bring(&mut world);
    let at = world.sandbox.pod("pod-e").at(SERVED);
    let client =
        |world: &World, target: Target| world.client_pod().enter(|| target.flow().unwrap());

    let service = Service::new(Transport::Tcp).backend(at);
    world.add(&service);
    for _ in 0..3 {
        world.ask_from_pod(service.cluster_ip(), 20);
        world.sandbox.remove_pod("pod-e").unwrap();
        // Nothing of the service changes.
        bring(&mut world);
        let before = world.client_pod().repeated_syns().unwrap();
        world.ask_from_pod(service.cluster_ip(), 20);
        assert_eq!(
            world.client_pod().repeated_syns().unwrap(),
            before,
            "SYNs were lost"
        );
    }

    let service = Service::new(Transport::Udp).backend(at);
    world.update(&service);
    let flow = client(&world, service.cluster_ip().within(MOMENT / 20));
    for _ in 0..3 {
        for _ in 0..20 {
            flow.ask(REQUEST).unwrap();
        }
        world.sandbox.remove_pod("pod-e").unwrap();
        bring(&mut world);
        wait_until("the flow finds the pod again", MOMENT, || {
            flow.ask(REQUEST).ok()
        })
        .unwrap();
    }
}

#[test]
fn a_pod_whose_other_end_moves_to_the_host_is_reached_by_the_stack() {
    let Some(mut world) = world() else {
        return;
    };
    for event in interfaces(&["pod-a", "pod-b", "pod-c", "pod-e"]) {
        world.apply(&event);
    }
    bring(&mut world);
    let pod = world.sandbox.pod("pod-e");
    let service = Service::new(Transport::Tcp).backend(pod.at(SERVED));
    world.add(&service);
    world.ask_from_pod(service.cluster_ip(), 20);

    // A bridge of the host now lies between the two.
    let (node, pod) = (world.sandbox.node(), world.sandbox.pod("pod-e").namespace());
    pod.configure(&format!(
        "link set eth0 netns {} name back-e\n",
        node.name()
    ))
    .unwrap();
    node.configure(&format!(
        "link add bridge-e type bridge\n\
         link set back-e master bridge-e\n\
         link add far-e type veth peer name eth0 netns {}\n\
         link set far-e master bridge-e\n\
         link set back-e up\n\
         link set far-e up\n\
         link set bridge-e up\n",
        pod.name()
    ))
    .unwrap();
    pod.configure(&format!(
        "address add {POD}/32 dev eth0\n\
         link set eth0 up\n\
         route add {GATEWAY}/32 dev eth0\n\
         route add default via {GATEWAY} dev eth0\n"
    ))
    .unwrap();
    let target = service.cluster_ip();
    wait_until("the pod is reached by the stack", MOMENT * 5, || {
        let target = target.within(MOMENT / 5);
        world.client_pod().enter(|| target.ask(REQUEST)).ok()
    })
    .unwrap();
    world.ask_from_pod(target, 20);
}

/// Makes a pod that serves, of a name and address of its own.
fn bring(world: &mut World) {
    world
        .sandbox
        .add_pod("pod-e", POD.parse().unwrap())
        .unwrap();
    world.sandbox.serve("pod-e", &[SERVED]).unwrap();
}

#[test]
fn a_packet_that_does_not_fit_the_pods_device_is_answered_by_the_stack() {
    let Some(mut world) = world() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let target = service.cluster_ip();
    world.ask_from_pod(target, 5);
    let (node, pod) = (world.sandbox.node(), world.sandbox.pod("pod-a").namespace());
    node.configure("link set pod-a mtu 1280\n").unwrap();
    pod.configure(
        "link set eth0 mtu 1280\n\
         route replace default via 10.1.1.254 dev eth0 advmss 1440\n",
    )
    .unwrap();
    transfer(world.client_pod(), target, 4 << 20);
    let learnt = world
        .client_pod()
        .query(&format!("route get {}\n", target.address().ip()))
        .unwrap();
    assert!(learnt.contains("mtu 1280"), "{learnt}");
}

#[test]
fn a_packet_at_the_end_of_its_way_is_answered_by_the_stack_and_others_lose_a_hop() {
    let Some(mut world) = world() else {
        return;
    };
    let service = Service::new(Transport::Udp).backend(world.backend("pod-a"));
    world.add(&service);
    let target = service.cluster_ip();
    world.ask_from_pod(target, 5);
    let client = world.client_pod();
    client.set("net/ipv4/ip_default_ttl", "1").unwrap();
    let outcome = client.enter(|| target.within(Duration::from_millis(200)).ask(REQUEST));
    assert!(outcome.is_err(), "one hop is not enough, but {outcome:?}");
    client.set("net/ipv4/ip_default_ttl", "2").unwrap();
    all_answered(client, target, 5);
}
