//! Connections from outside to a backend elsewhere, where only the host's stack can do what a router
//! has to: fragment, resolve a neighbour or report that there is none, refuse where a packet came in.

use std::{
    collections::HashMap,
    io::ErrorKind,
    net::{IpAddr, SocketAddr, UdpSocket},
    time::{Duration, Instant},
};

use shunt_tests::{
    Failure, Namespace, Target, Transport, addresses, patience,
    raw::{Packet, What, Wire},
    wait_until,
};

use crate::{
    dual_stack::{Family, service, world},
    service::Service,
    world::{REQUEST, SERVED, World},
};

/// Longer than what the narrow links take.
const LONG: usize = 1400;
const BYTES: u64 = 1 << 20;

/// Limits of the time of the kernel's answer that it has at hand, and of the one that it has to
/// wait for: it requests a neighbour three times. An error that is there before `connect` has let
/// go of its socket only counts when the SYN is sent again, a second later.
const AT_ONCE: Duration = Duration::from_millis(1900);
const SOON: Duration = Duration::from_secs(4);

/// Time until a neighbour is requested again, in milliseconds. By default it is a second, as
/// for a SYN: then one that is sent again as the last try ends has the kernel throw away what waits,
/// and no sender is notified.
const ASKED_AGAIN: &str = "250";

/// Longer than a processor's programs remember where packets of a source may come in.
const REMEMBERED: Duration = Duration::from_millis(200);

pub(crate) fn counted(world: &World, counter: &str) -> u64 {
    let status = world.shunt(&["status", "-o", "json"]).json();
    status["counters"][counter].as_u64().unwrap_or(0)
}

/// Has this node's ways to the backend and to the client take so much.
fn narrow(world: &World) {
    let (node2, outside) = (addresses::NODE2, addresses::OUTSIDE);
    world
        .sandbox
        .node()
        .configure(&format!(
            "route replace 10.1.2.0/24 via {node2} mtu lock 1300\n\
             route add {outside} dev eth0 mtu lock 1200\n"
        ))
        .unwrap();
}

#[test]
fn what_is_too_long_and_may_be_fragmented_is() {
    for transport in [Transport::Udp, Transport::Tcp] {
        let Some(mut world) = world() else {
            return;
        };
        let service = service(&world, transport, &["pod-d"]);
        world.add(&service);
        narrow(&world);
        let pod = world.sandbox.pod("pod-d").namespace();
        for host in [world.sandbox.outside(), pod] {
            // The packets of sockets that are made from now on do not have "don't fragment".
            host.set("net/ipv4/ip_no_pmtu_disc", "1").unwrap();
        }
        world.sandbox.serve("pod-d", &[SERVED]).unwrap();
        for target in [service.node_port(), service.external_ip()] {
            let before = counted(&world, "through_stack");
            world.sandbox.outside().enter(|| match transport {
                Transport::Udp => {
                    let flow = target.flow().unwrap();
                    // Longer than any link, too, so that its sender has fragmented it already.
                    for length in [LONG, REQUEST, LONG, 5000, LONG] {
                        let answer = flow.ask(length).unwrap();
                        assert_eq!(answer.peer.ip(), addresses::NODE, "{answer:?}");
                    }
                }
                Transport::Tcp => {
                    let mut connection = target.connect().unwrap();
                    for outcome in [connection.send(BYTES), connection.fetch(BYTES)] {
                        assert_eq!(outcome.unwrap().peer.ip(), addresses::NODE);
                    }
                }
            });
            assert!(counted(&world, "through_stack") >= before + 3);
            assert_eq!(counted(&world, "reject_too_long"), 0);
        }
    }
}

#[test]
fn what_is_too_long_is_fragmented_behind_rules_that_masquerade() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    narrow(&world);
    // As flannel's: hosts that are no pods are masqueraded towards pods.
    let rules = "table ip nat {\n\
                 chain post {\n\
                 type nat hook postrouting priority 100\n\
                 ip saddr != 10.1.0.0/16 ip daddr 10.1.0.0/16 masquerade\n\
                 }\n\
                 }\n";
    let node = world.sandbox.node();
    node.run_with_input("nft", &["-f", "-"], rules).unwrap();
    let outside = world.sandbox.outside();
    outside.set("net/ipv4/ip_no_pmtu_disc", "1").unwrap();
    outside.enter(|| {
        let flow = service.node_port().flow().unwrap();
        let peer = flow.ask(REQUEST).unwrap().peer;
        for length in [LONG, REQUEST, LONG] {
            assert_eq!(flow.ask(length).unwrap().peer, peer, "one flow");
        }
    });
}

/// Removes this node's routes to the backend.
fn unroute(node: &Namespace) {
    node.configure("route del 10.1.2.0/24\nroute del fd00:10:1:2::/64\n")
        .unwrap();
}

/// Adds them.
fn route(node: &Namespace, how: &str, via: &str) {
    let gateway = |family: Family| match via {
        "" => String::new(),
        via => format!(" via {}", family.of(via.parse().unwrap())),
    };
    let [v4, v6] = Family::BOTH.map(gateway);
    node.configure(&format!(
        "route add {how} 10.1.2.0/24{v4}\n\
         route add {how} fd00:10:1:2::/64{v6}\n"
    ))
    .unwrap();
}

/// A router's error as the client sees it: an ICMPv6 error that something is prohibited is one of its own.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Unreachable,
    Prohibited,
}

/// A connection to the service from outside fails with the same word of a router's as one to the backend
/// itself, the control, and so long after it began.
#[track_caller]
fn assert_told(world: &World, port: u16, within: Duration) {
    let service = Service::new(Transport::Tcp).dual_stack();
    for (family, port) in Family::BOTH.into_iter().zip(port..) {
        let direct = Target::tcp(family.backend(world, "pod-d"));
        let words = [direct, family.target(service.node_port())].map(|target| {
            let target = target.from_port(port).within(2 * SOON);
            let begin = Instant::now();
            let outcome = world.sandbox.outside().enter(|| target.connect().map(drop));
            let took = begin.elapsed();
            assert!(took < within, "{target:?}: {outcome:?} after {took:?}");
            match outcome {
                Err(Failure::Unreachable) => Word::Unreachable,
                Err(Failure::Other(error)) if error.kind() == ErrorKind::PermissionDenied => {
                    Word::Prohibited
                }
                other => panic!("{target:?}: {other:?}"),
            }
        });
        assert_eq!(words[1], words[0], "{family:?}");
    }
}

#[test]
fn a_client_is_told_that_a_backend_is_not_to_be_reached() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Tcp, &["pod-d"]);
    world.add(&service);
    let node = world.sandbox.node();
    // More errors than a host gets at once otherwise.
    for limit in ["net/ipv4/icmp_ratelimit", "net/ipv6/icmp/ratelimit"] {
        node.set(limit, "0").unwrap();
    }
    for family in ["ipv4", "ipv6"] {
        let interval = format!("net/{family}/neigh/eth1/retrans_time_ms");
        node.set(&interval, ASKED_AGAIN).unwrap();
    }
    for (how, port) in [("unreachable", 40_000), ("prohibit", 40_010)] {
        unroute(node);
        route(node, how, "");
        assert_told(&world, port, AT_ONCE);
    }
    unroute(node);
    assert_told(&world, 40_020, AT_ONCE);
    // A next hop without a host.
    route(node, "", "192.168.16.77");
    assert_told(&world, 40_030, SOON);
    unroute(node);
    route(node, "", "192.168.16.20");
    for family in Family::BOTH {
        let target = family.target(service.node_port());
        let outcome = world.sandbox.outside().enter(|| target.ask(REQUEST));
        outcome.unwrap();
    }
}

/// Returns the number of UDP datagrams of both families that a host has received.
fn received(host: &Namespace) -> u64 {
    host.counter("UdpInDatagrams").unwrap() + host.counter("Udp6InDatagrams").unwrap()
}

#[test]
fn where_a_packet_came_in_is_judged_as_the_interface_is_set() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    // A source that is behind the other interface by the node's routes.
    let forged: IpAddr = "203.0.113.200".parse().unwrap();
    let (node, outside) = (world.sandbox.node(), world.sandbox.outside());
    // From then on all hosts know the neighbours: a client from there does not even get an address.
    outside.enter(|| service.node_port().ask(REQUEST).unwrap());
    node.configure(&format!("route add {forged} via {}\n", addresses::NODE2))
        .unwrap();
    outside
        .configure(&format!(
            "address add {forged}/32 dev eth0\n\
             route add {} via 198.51.100.1 src {forged}\n\
             route add {} via 198.51.100.1 src {forged}\n",
            addresses::NODE,
            addresses::POD_D,
        ))
        .unwrap();
    node.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    let pod = world.sandbox.pod("pod-d").namespace();
    let come = |target: Target| {
        let before = received(pod);
        // The answers go by the routes, so that none comes.
        outside.enter(|| {
            for _ in 0..3 {
                drop(target.within(Duration::from_millis(300)).ask(REQUEST));
            }
        });
        received(pod) - before
    };
    // Through the service, and the control: to the backend itself, as the kernel forwards it.
    let direct = Target::udp(world.backend("pod-d"));
    for (mode, passes) in [("1", false), ("2", true), ("0", true)] {
        node.set("net/ipv4/conf/eth0/rp_filter", mode).unwrap();
        let expected = if passes { 3 } else { 0 };
        wait_for_filter(expected, || come(service.node_port()));
        for target in [direct, service.node_port()] {
            assert_eq!(come(target), expected, "rp_filter {mode}, {target:?}");
        }
    }
}

/// Waits until the programs of all processors follow the `rp_filter` that was set last: until `come` has returned
/// `expected` for as long as one of them may remember another answer.
#[track_caller]
pub(crate) fn wait_for_filter(expected: u64, mut come: impl FnMut() -> u64) {
    wait_until("the programs know the setting", SOON, || {
        let begin = Instant::now();
        while begin.elapsed() < REMEMBERED {
            if come() != expected {
                return None;
            }
        }
        Some(())
    })
    .unwrap();
}

/// Returns the number of packets, of three from this source, which is not the sender's, that get to a pod.
pub(crate) fn come(world: &World, target: Target, source: IpAddr) -> u64 {
    let pod = world.sandbox.pod("pod-d").namespace();
    let before = received(pod);
    world.sandbox.outside().enter(|| {
        let mut wire = Wire::open(target.address().ip()).unwrap();
        for _ in 0..3 {
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
    received(pod) - before - 1
}

#[test]
fn a_source_that_is_this_nodes_or_everybodys_is_judged_as_the_kernel_does() {
    let Some(mut world) = world() else {
        return;
    };
    let service = service(&world, Transport::Udp, &["pod-d"]);
    world.add(&service);
    let node = world.sandbox.node();
    node.set("net/ipv4/conf/all/rp_filter", "0").unwrap();
    // This node's, on either side, then all hosts' of these networks.
    let own = ["192.168.16.10", "198.51.100.1"];
    let broadcast = ["192.168.16.255", "198.51.100.255"];
    for mode in ["1", "2", "0"] {
        node.set("net/ipv4/conf/eth0/rp_filter", mode).unwrap();
        for source in [own, broadcast].concat() {
            let is_own = own.contains(&source);
            let source: IpAddr = source.parse().unwrap();
            for family in Family::BOTH {
                let source = family.of(source);
                let direct = come(&world, Target::udp(family.backend(&world, "pod-d")), source);
                println!(
                    "rp_filter {mode}, from {source}: {direct} of 3 get to the backend itself"
                );
                for target in [service.node_port(), service.external_ip()] {
                    let came = come(&world, family.target(target), source);
                    assert_eq!(came, direct, "rp_filter {mode}, {source} to {target:?}");
                }
                if is_own && family == Family::V4 {
                    assert_eq!(direct, 0, "rp_filter {mode}, {source}");
                }
            }
        }
    }
}

/// Number of flows that wait for one neighbour at once. Some of them have one entry of the programs' table: of 4,096
/// entries, 200 flows share 5. The kernel keeps as many packets for a neighbour.
const WAITING: u16 = 200;

/// Has a host answer no request for its link address, or all of them again.
fn answer_neighbours(host: &Namespace, answers: bool) {
    let rules = if answers {
        "delete table arp silent\ndelete table ip6 silent\n"
    } else {
        "table arp silent {\n\
         chain in {\n\
         type filter hook input priority 0\n\
         arp operation request drop\n\
         }\n\
         }\n\
         table ip6 silent {\n\
         chain in {\n\
         type filter hook input priority 0\n\
         icmpv6 type nd-neighbor-solicit drop\n\
         }\n\
         }\n"
    };
    host.run_with_input("nft", &["-f", "-"], rules).unwrap();
}

#[test]
fn of_flows_that_wait_for_one_neighbour_none_gets_anothers_source() {
    const PORT: u16 = 7777;
    let Some(mut world) = world() else {
        return;
    };
    let pod = world.sandbox.pod("pod-d");
    let service = Service::new(Transport::Udp)
        .dual_stack()
        .backend(pod.at(PORT))
        .backend(pod.at_v6(PORT));
    world.add(&service);
    let (node, outside) = (world.sandbox.node(), world.sandbox.outside());
    let pod = world.sandbox.pod("pod-d").namespace();
    for family in Family::BOTH {
        let router = family.of(addresses::NODE2);
        let target = family.target(service.node_port()).address();
        let any: SocketAddr = match family {
            Family::V4 => "0.0.0.0:0",
            Family::V6 => "[::]:0",
        }
        .parse()
        .unwrap();
        let backend = pod.enter(|| UdpSocket::bind(SocketAddr::new(any.ip(), PORT)).unwrap());
        answer_neighbours(world.sandbox.node2(), false);
        node.configure(&format!("neigh flush to {router}\n"))
            .unwrap();
        let clients: Vec<_> = outside.enter(|| {
            (0..WAITING)
                .map(|number| {
                    let client = UdpSocket::bind(any).unwrap();
                    client.send_to(&number.to_be_bytes(), target).unwrap();
                    client
                })
                .collect()
        });
        answer_neighbours(world.sandbox.node2(), true);

        backend
            .set_read_timeout(Some(patience(Duration::from_secs(4))))
            .unwrap();
        let mut flows = HashMap::new();
        for _ in 0..WAITING {
            let mut bytes = [0; 2];
            let (_, peer) = backend.recv_from(&mut bytes).unwrap();
            let number = u16::from_be_bytes(bytes);
            let other = flows.insert(peer, number);
            assert_eq!(other, None, "{number} comes from {peer} as well");
        }
        // A packet whose entry another flow has by now keeps its own source.
        let router = family.of(addresses::NODE);
        let came = flows.keys().filter(|peer| peer.ip() == router).count();
        println!("{family:?}: {came} of {WAITING} datagrams came translated");
        assert!(came > usize::from(WAITING) * 9 / 10, "{family:?}: {came}");
        drop(clients);
    }
}
