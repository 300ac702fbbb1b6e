//! Packets whose source a pod has made up.

use std::net::{IpAddr, SocketAddr};

use shunt_tests::{
    Namespace, Target, Transport, addresses,
    raw::{Packet, What, Wire},
};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    router::wait_for_filter,
    world::{REQUEST, World},
};

/// The pod that forges it.
const FORGER: &str = "pod-a";

/// Number of such packets that are sent each time.
const PACKETS: u64 = 6;

/// Returns the number of UDP datagrams of both families that a host has received.
fn received(host: &Namespace) -> u64 {
    host.counter("UdpInDatagrams").unwrap() + host.counter("Udp6InDatagrams").unwrap()
}

/// Returns the number of packets from this source, one after the other of one flow, that get to `backend`.
fn come(world: &World, backend: &str, target: Target, source: IpAddr) -> u64 {
    let backend = world.sandbox.pod(backend).namespace();
    let before = received(backend);
    world.sandbox.pod(FORGER).namespace().enter(|| {
        let mut wire = Wire::open(target.address().ip()).unwrap();
        for _ in 0..PACKETS {
            wire.send(&Packet {
                from: SocketAddr::new(source, 40_000),
                to: target.address(),
                sequence: 0,
                what: What::Udp,
            })
            .unwrap();
        }
        // Behind them, and answered when they have come or are gone.
        target.ask(REQUEST).unwrap();
    });
    received(backend) - before - 1
}

#[test]
fn a_redirected_packet_is_judged_by_its_source_as_a_forwarded_one() {
    let Some(mut world) = world_with_flags(&["--redirect"]) else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-b"]);
    world.add(&service);
    let node = world.sandbox.node();
    node.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    for mode in ["1", "0"] {
        node.set(&format!("net/ipv4/conf/{FORGER}/rp_filter"), mode)
            .unwrap();
        let expected = if mode == "1" { 0 } else { PACKETS };
        let cluster_ip = Family::V4.target(service.cluster_ip());
        wait_for_filter(expected, || {
            come(&world, "pod-b", cluster_ip, addresses::POD_C)
        });
        for family in Family::BOTH {
            // The control, as the kernel forwards it: to the backend itself.
            let direct = Target::udp(family.backend(&world, "pod-b"));
            for source in [addresses::POD_C, addresses::OUTSIDE] {
                let source = family.of(source);
                let expected = come(&world, "pod-b", direct, source);
                let is_judged = family == Family::V4 && mode == "1";
                assert_eq!(expected, if is_judged { 0 } else { PACKETS });
                for target in [service.cluster_ip(), service.external_ip()] {
                    let target = family.target(target);
                    let came = come(&world, "pod-b", target, source);
                    assert_eq!(came, expected, "rp_filter {mode}, {source} to {target:?}");
                }
            }
        }
    }
}
