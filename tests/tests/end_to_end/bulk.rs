//! Transfers of many bytes: large segments that the virtual devices leave unsegmented and without
//! a finished checksum (GSO and `CHECKSUM_PARTIAL`).

use std::net::IpAddr;

use shunt_tests::{Namespace, Target, Transport, addresses};

use crate::{
    dual_stack::{Family, service, world},
    service::Service,
    world::World,
};

/// More than a gigabyte (2^30), and no multiple of anything.
const THERE: u64 = (1 << 30) + 12_345;

/// The way back.
const BACK: u64 = 256 << 20;

#[test]
fn a_gigabyte_from_a_pod_to_a_pod_of_the_same_node_arrives_unchanged() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    let client = addresses::POD_C;
    transfer(
        world.client_pod(),
        service.cluster_ip(),
        client,
        THERE,
        BACK,
    );
}

#[test]
fn a_gigabyte_from_outside_to_a_pod_of_the_other_node_arrives_unchanged() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-d"));
    world.add(&service);
    let node = addresses::NODE;
    transfer(
        world.sandbox.outside(),
        service.node_port(),
        node,
        THERE,
        BACK,
    );
}

#[test]
fn segments_without_offloads_arrive_unchanged() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Tcp).backend(world.backend("pod-a"));
    world.add(&service);
    // One segment a packet.
    world
        .client_pod()
        .configure("link set eth0 gso_max_segs 1\n")
        .unwrap();
    transfer(
        world.client_pod(),
        service.external_ip(),
        addresses::POD_C,
        64 << 20,
        64 << 20,
    );
}

#[test]
fn udp_datagrams_of_all_lengths_arrive_unchanged() {
    let Some(mut world) = World::new() else {
        return;
    };
    let service = Service::new(Transport::Udp).backend(world.backend("pod-d"));
    world.add(&service);
    let flow = world
        .sandbox
        .outside()
        .enter(|| service.external_ip().flow().unwrap());
    // An Ethernet frame of 1,500 bytes holds 1,472 of payload.
    for length in [1, 2, 3, 17, 100, 511, 1_000, 1_471, 1_472] {
        let answer = flow.ask(length);
        assert!(
            answer.is_ok(),
            "{length} bytes must arrive with their checksum, but {answer:?}"
        );
    }
}

#[test]
fn udp_datagrams_longer_than_a_frame_arrive_unchanged() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-a", "pod-d"]);
    world.add(&service);
    let (pod, outside) = (world.client_pod(), world.sandbox.outside());
    for family in Family::BOTH {
        for (client, target) in [
            (pod, service.cluster_ip()),
            (outside, service.node_port()),
            (outside, service.external_ip()),
        ] {
            // A flow each, so that both backends get some.
            for length in [1_473, 1_500, 2_961, 8_000, 20_001, 60_000].repeat(4) {
                let answer = client.enter(|| family.target(target).flow().unwrap().ask(length));
                assert!(answer.is_ok(), "{length} bytes to {target:?}: {answer:?}");
            }
        }
    }
}

#[test]
fn jumbo_frames_arrive_unchanged() {
    let Some(mut world) = world() else {
        return;
    };
    let hosts = [world.sandbox.node(), world.client_pod()];
    let jumbo = "link set pod-a mtu 9000\nlink set pod-c mtu 9000\n";
    let within = "link set eth0 mtu 9000\n";
    for (host, commands) in hosts.into_iter().zip([jumbo, within]) {
        host.configure(commands).unwrap();
    }
    let backend = world.sandbox.pod("pod-a").namespace();
    backend.configure(within).unwrap();
    let service = service(&world, Transport::Udp, &["pod-a"]);
    world.add(&service);
    for family in Family::BOTH {
        let target = family.target(service.cluster_ip());
        for length in [1_473, 4_097, 8_900] {
            let answer = world
                .client_pod()
                .enter(|| target.flow().unwrap().ask(length));
            assert!(answer.is_ok(), "{length} bytes to {target:?}: {answer:?}");
        }
    }
    let counters = &world.shunt(&["status", "-o", "json"]).json()["counters"];
    assert_eq!(counters["fragment"], 0, "whole frames: {counters}");
}

/// Sends bytes there and gets others back; the backend must see the client at `seen`.
fn transfer(from: &Namespace, target: Target, seen: IpAddr, there: u64, back: u64) {
    from.enter(|| {
        let mut connection = target.connect().unwrap();
        for outcome in [connection.send(there), connection.fetch(back)] {
            let answer = outcome.unwrap_or_else(|failure| panic!("{target:?}: {failure}"));
            eprintln!("{} bytes in {:?}", answer.bytes, answer.latency);
            assert_eq!(answer.peer.ip(), seen, "whom the backend must see");
        }
    });
}
