//! Pods whose connections the host's own rules masquerade, beside clients outside who go on under the
//! same address: to one backend, from ports that the host chooses without us. These may be a NodePort.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use shunt_common::PortRange;
use shunt_tests::{Target, Transport, addresses};

use crate::{
    dual_stack::{Family, service, world_with_flags},
    service::Service,
    snat::Open,
    snat_sources::{SECOND, add_second, prefer},
    world::World,
};

/// Two clients outside and a pod have all of them.
const PORTS: [u16; 3] = [20_000, 20_001, 20_002];

/// A client's ports.
const CLIENT_PORTS: [u16; 3] = [25_400, 25_401, 25_402];

/// Time until a client sends a second SYN (RFC 6298 2.1), less some.
const SECOND_SYN: Duration = Duration::from_millis(900);

/// The flag that has SNAT assign [`PORTS`].
fn snat_ports() -> String {
    let [first, .., last] = PORTS;
    format!("--snat-ports={first}-{last}")
}

fn world(transport: Transport) -> Option<(World, Service)> {
    let mut world = world_with_flags(&[&snat_ports()])?;
    let web = service(&world, transport, &["pod-d"]);
    world.add(&web);
    Some((world, web))
}

/// Has the host translate the source of what the client pod sends to the other node, always to this one.
fn masquerade(world: &World, source: IpAddr, port: u16) {
    let (pod, source_v6) = (addresses::POD_C, addresses::v6(source));
    let pod_v6 = addresses::v6(pod);
    let rules = format!(
        "table inet host_rules {{}}\n\
         delete table inet host_rules\n\
         table inet host_rules {{ chain postrouting {{\n\
         type nat hook postrouting priority srcnat\n\
         oifname eth1 ip saddr {pod} meta l4proto {{ tcp, udp }} snat ip to {source}:{port}\n\
         oifname eth1 ip6 saddr {pod_v6} meta l4proto {{ tcp, udp }} snat ip6 to [{source_v6}]:{port}\n\
         }}\n}}\n"
    );
    let node = world.sandbox.node();
    node.run_with_input("nft", &["-f", "-"], &rules).unwrap();
}

/// The ports of a client outside, in such an order that SNAT tries [`PORTS`] first for them, each its own.
fn client_ports(family: Family) -> [u16; 3] {
    let range = PortRange::within(PORTS[0], PORTS[2]).unwrap();
    let first_tried = |port: &u16| {
        let port = port.to_be();
        let mut probes = match family.of(addresses::OUTSIDE) {
            IpAddr::V4(ip) => range.probes(&u32::from_ne_bytes(ip.octets()), port),
            IpAddr::V6(ip) => {
                let octets = ip.octets();
                let (words, _) = octets.as_chunks();
                let words: [u32; 4] = std::array::from_fn(|word| u32::from_ne_bytes(words[word]));
                range.probes(&words, port)
            }
        };
        u16::from_be(probes.next_port())
    };
    PORTS.map(|port| {
        let mut all = CLIENT_PORTS.into_iter();
        all.find(|client| first_tried(client) == port).unwrap()
    })
}

fn from_outside(world: &World, target: Target, transport: Transport) -> Open {
    let outside = world.sandbox.outside();
    outside.enter(|| Open::new(target, transport))
}

fn from_pod(world: &World, family: Family, transport: Transport) -> Open {
    let backend = Target::new(transport, family.backend(world, "pod-d"));
    world.client_pod().enter(|| Open::new(backend, transport))
}

/// All are answered, in turn; the backend sees each at this source, at a port of its own. Returns these.
#[track_caller]
fn ports(source: IpAddr, all: &mut [&mut Open]) -> Vec<u16> {
    let mut ports = Vec::new();
    for _ in 0..5 {
        ports.clear();
        for open in &mut *all {
            let peer = open.ask().peer;
            assert_eq!(peer.ip(), source);
            ports.push(peer.port());
        }
    }
    let different: BTreeSet<u16> = ports.iter().copied().collect();
    assert_eq!(different, BTreeSet::from(PORTS), "{ports:?}");
    ports
}

#[test]
fn a_pod_gets_the_port_of_a_client_outside_and_both_go_on() {
    pod_gets_port(addresses::NODE);
}

#[test]
fn a_pod_gets_the_port_of_a_client_outside_at_any_source_that_the_kernel_prefers() {
    pod_gets_port(SECOND);
}

fn pod_gets_port(source: IpAddr) {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((mut world, web)) = world(transport) else {
            return;
        };
        if source == SECOND {
            add_second(&world.sandbox);
            prefer(&world.sandbox, SECOND);
            // The next agent knows that from the begin.
            world = world.killed().start(&[&snat_ports()]);
        }
        for family in Family::BOTH {
            let target = family.target(web.node_port());
            let [first, second, _] = client_ports(family);
            let mut first = from_outside(&world, target.from_port(first), transport);
            let mut second = from_outside(&world, target.from_port(second), transport);
            let taken = [first.ask().peer.port(), second.ask().peer.port()];
            assert_eq!(taken, PORTS[..2]);
            masquerade(&world, source, taken[0]);
            let mut pod = from_pod(&world, family, transport);
            let seen = ports(family.of(source), &mut [&mut first, &mut second, &mut pod]);
            assert_eq!(seen[..2], taken, "who was there first stays");
        }
    }
}

#[test]
fn a_client_outside_gets_the_port_of_a_pod_and_both_go_on() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some((world, web)) = world(transport) else {
            return;
        };
        masquerade(&world, addresses::NODE, PORTS[0]);
        for family in Family::BOTH {
            let mut pod = from_pod(&world, family, transport);
            assert_eq!(pod.ask().peer.port(), PORTS[0]);
            let target = family.target(web.node_port());
            let [first, second, _] = client_ports(family);
            let begin = Instant::now();
            let mut first = from_outside(&world, target.from_port(first), transport);
            if transport == Transport::Tcp {
                assert!(
                    begin.elapsed() > SECOND_SYN,
                    "the first SYN met the pod's connection"
                );
            }
            assert_eq!(pod.ask().peer.ip(), family.of(addresses::NODE));
            first.ask();
            let mut second = from_outside(&world, target.from_port(second), transport);
            let seen = ports(
                family.of(addresses::NODE),
                &mut [&mut pod, &mut first, &mut second],
            );
            if transport == Transport::Tcp {
                assert_eq!(seen[0], PORTS[0], "who was there first stays");
            }
        }
    }
}

/// The server sees this node at the NodePort, and its answers arrive.
#[track_caller]
fn is_answered_at(family: Family, node_port: u16, open: &mut Open) {
    let node = SocketAddr::new(family.of(addresses::NODE), node_port);
    for _ in 0..5 {
        assert_eq!(open.ask().peer, node);
    }
}

#[test]
fn who_goes_out_from_a_node_port_is_answered() {
    for transport in [Transport::Tcp, Transport::Udp] {
        let Some(mut world) = world_with_flags(&[]) else {
            return;
        };
        let web = service(&world, transport, &["pod-a"]);
        let node_port = web.node_port().address().port();
        // From before the service.
        let mut older = Family::BOTH.map(|family| {
            let server = Target::new(transport, family.backend(&world, "pod-d"));
            let node = world.sandbox.node();
            node.enter(|| Open::new(server.from_port(node_port), transport))
        });
        for (family, open) in Family::BOTH.into_iter().zip(&mut older) {
            is_answered_at(family, node_port, open);
        }
        world.add(&web);
        for (family, open) in Family::BOTH.into_iter().zip(&mut older) {
            is_answered_at(family, node_port, open);
        }
        drop(older);
        masquerade(&world, addresses::NODE, node_port);
        for family in Family::BOTH {
            let mut pod = from_pod(&world, family, transport);
            is_answered_at(family, node_port, &mut pod);
            let target = family.target(web.node_port());
            let mut client = from_outside(&world, target, transport);
            client.ask();
            is_answered_at(family, node_port, &mut pod);
            client.ask();
        }
    }
}
