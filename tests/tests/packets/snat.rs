//! Connections from outside to backends on other nodes go on from this node, which forwards both
//! directions itself.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicU32, Ordering},
};

use etherparse::{
    Icmpv4Type,
    icmpv4::{DestUnreachableHeader, TimeExceededCode},
};
use shunt::datapath::DatapathOptions;
use shunt_common::PortRange;
use shunt_tests::Namespace;

use super::{
    frame::{OPENING, Packet, Transport, error, source},
    needs_root,
    node::{NODE, NODE_TOO, Node, Verdict, resync, update, web},
};

type Endpoint = ([u8; 4], u16);

const CLIENT: Endpoint = ([198, 51, 100, 5], 40000);
const CLUSTER_IP: Endpoint = ([10, 96, 0, 1], 80);
const EXTERNAL_IP: Endpoint = ([203, 0, 113, 7], 80);
const NODE_PORT: Endpoint = (NODE, 30080);
const BACKEND: Endpoint = ([10, 1, 2, 3], 8080);

/// The longest packet that goes to a client.
const CLIENT_MTU: u16 = 600;
/// The longest packet that goes to a backend.
const BACKEND_MTU: u16 = 500;

/// Runs a test in a network with routes to backends and clients; the frames come in by its
/// loopback.
fn in_network(test: impl FnOnce() + Send) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let network = Namespace::new(number, "packets").unwrap();
    network.set("net/ipv4/ip_forward", "1").unwrap();
    network
        .configure(&format!(
            "link add eth0 type veth peer name peer\n\
             address add 192.168.16.10/24 dev eth0\n\
             link set eth0 up\n\
             link set peer up\n\
             route add 10.1.2.0/24 via 192.168.16.20 mtu lock {BACKEND_MTU}\n\
             route add 198.51.0.0/16 via 192.168.16.1 mtu lock {CLIENT_MTU}\n\
             route add blackhole 10.1.2.8\n\
             route add unreachable 10.1.2.9\n"
        ))
        .unwrap();
    network.enter(test);
}

/// The service `web` with backends of weight 1 on another node.
fn remote(backends: &[u8]) -> String {
    let backends: Vec<_> = backends.iter().map(|last| (*last, 1)).collect();
    web(&backends)
        .replace(r#""local":true"#, r#""local":false"#)
        .replace("10.1.1.", "10.1.2.")
}

fn node() -> Node {
    Node::new([resync(&[&remote(&[3])]).as_str()])
}

/// A node that has so many ports to give.
fn node_with_ports(count: u16) -> Node {
    let ports = |options: &mut DatapathOptions| {
        options.snat_ports = PortRange::within(61_000, 61_000 + count - 1).unwrap();
        assert_eq!(options.snat_ports.count, count, "a prime number");
    };
    Node::with(ports, [resync(&[&remote(&[3])]).as_str()])
}

/// Whom the backend sees, if the packet is sent on.
#[track_caller]
fn seen(verdict: &Verdict) -> Endpoint {
    match verdict {
        Verdict::Redirect(frame) => source(frame),
        other => panic!("not forwarded: {other:?}"),
    }
}

/// Opens a connection and gives the source port that the backend sees; `None` if it is dropped.
fn open(node: &mut Node, client: Endpoint) -> Option<u16> {
    let syn = Packet::new(Transport::TcpSyn, client, NODE_PORT);
    match node.ingress(&syn.frame()) {
        Verdict::Drop => None,
        sent => {
            let (address, port) = seen(&sent);
            assert_eq!(address, NODE);
            Some(port)
        }
    }
}

/// Ends the client's connection.
fn reset(node: &mut Node, client: Endpoint) {
    let reset = Packet::new(Transport::TcpRst, client, NODE_PORT);
    seen(&node.ingress(&reset.frame()));
}

fn counters(node: &Node) -> Vec<(&'static str, u64)> {
    node.counters().into_iter().collect()
}

#[test]
fn both_directions_are_forwarded_under_this_nodes_address() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let mut packets = 0;
        for transport in OPENING {
            for (port, frontend) in (CLIENT.1..).zip([NODE_PORT, EXTERNAL_IP, CLUSTER_IP]) {
                let client = (CLIENT.0, port);
                let first = Packet::new(transport, client, frontend);
                let seen_as = seen(&node.ingress(&first.frame()));
                assert_eq!(seen_as.0, NODE);
                assert!((1024..30_000).contains(&seen_as.1), "{seen_as:?}");
                for (time_to_live, options) in [(2, 0), (64, 4), (255, 40)] {
                    let request = Packet {
                        time_to_live,
                        options: vec![1; options],
                        ..first.clone()
                    };
                    let at_backend = request.from(seen_as).to(BACKEND).forwarded();
                    assert_eq!(
                        node.ingress(&request.frame()),
                        Verdict::Redirect(at_backend.frame())
                    );
                    let reply = Packet {
                        time_to_live,
                        ..at_backend.answer()
                    };
                    let restored = reply.from(frontend).to(client).forwarded();
                    assert_eq!(
                        node.ingress(&reply.frame()),
                        Verdict::Redirect(restored.frame())
                    );
                    for sent in [at_backend, restored].map(|packet| packet.frame()) {
                        let passed = Verdict::Pass(sent.clone());
                        assert_eq!(node.egress(&sent), passed, "on its way out");
                    }
                    packets += 1;
                }
            }
        }
        assert_eq!(
            counters(&node),
            [
                ("connection", 6),
                ("reply", packets),
                ("request", packets + 6)
            ]
        );
    });
}

#[test]
fn a_udp_checksum_of_zero_stays_zero_from_outside() {
    needs_root!();
    let without_checksum = |packet: &Packet| {
        let mut frame = packet.frame();
        frame[40..42].fill(0);
        frame
    };
    in_network(|| {
        let mut node = node();
        let request = Packet::new(Transport::Udp, CLIENT, NODE_PORT);
        let sent = node.ingress(&without_checksum(&request));
        let at_backend = request.from(seen(&sent)).to(BACKEND);
        assert_eq!(
            sent,
            Verdict::Redirect(without_checksum(&at_backend.forwarded()))
        );
        let reply = at_backend.answer();
        let restored = reply.from(NODE_PORT).to(CLIENT).forwarded();
        assert_eq!(
            node.ingress(&without_checksum(&reply)),
            Verdict::Redirect(without_checksum(&restored))
        );
    });
}

#[test]
fn clients_on_this_node_keep_their_address_towards_remote_backends() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        for client in [([10, 1, 1, 9], 40000), (NODE, 40001)] {
            let request = Packet::new(Transport::TcpSyn, client, CLUSTER_IP);
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Pass(request.to(BACKEND).frame())
            );
        }
    });
}

#[test]
fn a_reply_to_a_client_port_of_the_range_is_restored_where_it_leaves() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let client = ([10, 1, 1, 9], 20_000);
        let request = Packet::new(Transport::TcpSyn, client, CLUSTER_IP);
        node.ingress(&request.frame()).passed();
        let reply = request.to(BACKEND).answer();
        assert_eq!(
            node.ingress(&reply.frame()),
            Verdict::Pass(reply.frame()),
            "where it comes in"
        );
        assert_eq!(
            node.egress(&reply.frame()),
            Verdict::Pass(reply.from(CLUSTER_IP).frame())
        );
        let stray = reply.to((NODE, 20_000)).frame();
        assert_eq!(node.ingress(&stray), Verdict::Pass(stray.clone()));
    });
}

#[test]
fn a_client_port_gets_the_same_source_port_again() {
    needs_root!();
    in_network(|| {
        let ports = |node: &mut Node| -> Vec<_> {
            let clients = (40_000..40_050).map(|port| (CLIENT.0, port));
            clients.map(|client| open(node, client).unwrap()).collect()
        };
        let mut first = node();
        let before = ports(&mut first);
        assert_eq!(ports(&mut first), before, "the same SYNs again");
        for port in 40_000..40_050 {
            reset(&mut first, (CLIENT.0, port));
        }
        assert_eq!(ports(&mut first), before, "new connections");
        assert_eq!(ports(&mut node()), before, "at another time");
        let different: BTreeSet<_> = before.iter().collect();
        assert_eq!(different.len(), before.len(), "each has one of its own");
    });
}

#[test]
fn a_packet_that_has_come_too_far_is_reported() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let port = open(&mut node, CLIENT).unwrap();
        let request = Packet::new(Transport::TcpAck, CLIENT, NODE_PORT);
        let reply = request.from((NODE, port)).to(BACKEND).answer();
        for time_to_live in [0, 1] {
            for packet in [&request, &reply] {
                let packet = Packet {
                    time_to_live,
                    ..packet.clone()
                };
                let frame = packet.frame();
                let code = TimeExceededCode::TtlExceededInTransit;
                let expired = error(&packet, &frame, Icmpv4Type::TimeExceeded(code));
                assert_eq!(node.ingress(&frame), Verdict::Redirect(expired));
            }
        }
        assert_eq!(node.counters()["reject_expired"], 4);
    });
}

#[test]
fn a_packet_longer_than_its_way_takes_is_reported() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        for transport in [Transport::TcpSyn, Transport::TcpAck, Transport::Udp] {
            let opening = match transport {
                Transport::Udp => Transport::Udp,
                _ => Transport::TcpSyn,
            };
            let first = Packet::new(opening, CLIENT, NODE_PORT);
            let seen_as = seen(&node.ingress(&first.frame()));
            let request = first.with(transport);
            let reply = request.from(seen_as).to(BACKEND).answer();
            for (packet, mtu) in [(request, BACKEND_MTU), (reply, CLIENT_MTU)] {
                let headers = packet.frame().len() - packet.payload.len() - 14;
                let of_length = |length| Packet {
                    payload: vec![7; length - headers],
                    ..packet.clone()
                };
                seen(&node.ingress(&of_length(usize::from(mtu)).frame()));
                let longer = of_length(usize::from(mtu) + 1);
                let frame = longer.frame();
                let needed = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: mtu };
                let answer = error(&longer, &frame, Icmpv4Type::DestinationUnreachable(needed));
                assert_eq!(
                    node.ingress(&frame),
                    Verdict::Redirect(answer),
                    "{transport:?} {mtu}"
                );
            }
        }
        assert_eq!(node.counters()["reject_too_long"], 6);
    });
}

#[test]
fn a_backend_without_a_route_is_a_drop() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let nowhere = remote(&[3]).replace("10.1.2.3", "10.9.9.3");
        let services = [remote(&[8]), remote(&[9]), nowhere];
        for (port, service) in (40_000..).zip(services) {
            node.apply(&update(&service));
            let syn = Packet::new(Transport::TcpSyn, (CLIENT.0, port), NODE_PORT);
            assert_eq!(node.ingress(&syn.frame()), Verdict::Drop);
        }
        assert_eq!(counters(&node), [("connection", 3), ("drop_no_route", 3)]);
    });
}

#[test]
fn without_an_address_of_this_node_a_connection_is_dropped() {
    needs_root!();
    in_network(|| {
        let nobody = resync(&[&remote(&[3])]).replace(r#""192.168.16.10","#, "");
        let mut node = Node::new([nobody.as_str()]);
        let syn = Packet::new(Transport::TcpSyn, CLIENT, EXTERNAL_IP);
        assert_eq!(node.ingress(&syn.frame()), Verdict::Drop);
        assert_eq!(counters(&node), [("drop_no_node_ip", 1)]);
        node.apply(&resync(&[&remote(&[3])]));
        assert_eq!(seen(&node.ingress(&syn.frame())).0, NODE);
    });
}

#[test]
fn a_connection_stays_when_the_nodes_address_changes() {
    needs_root!();
    in_network(|| {
        let mut node = node();
        let port = open(&mut node, CLIENT).unwrap();
        let request = Packet::new(Transport::TcpAck, CLIENT, NODE_PORT);
        let at_backend = request.from((NODE, port)).to(BACKEND);
        let reply = at_backend.answer();
        let lower = resync(&[&remote(&[3])]).replace("16.10\"", "16.10\",\"192.168.16.5\"");
        let gone = lower.replace(r#""192.168.16.10","#, "");
        for change in [lower, gone] {
            node.apply(&change);
            assert_eq!(
                node.ingress(&request.frame()),
                Verdict::Redirect(at_backend.forwarded().frame())
            );
            let restored = reply.from(NODE_PORT).to(CLIENT).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
            let other = Packet::new(Transport::TcpSyn, (CLIENT.0, 1), EXTERNAL_IP);
            assert_eq!(seen(&node.ingress(&other.frame())).0, NODE_TOO);
        }
    });
}

#[test]
fn the_flag_says_which_address_connections_go_on_from() {
    needs_root!();
    in_network(|| {
        let given = [192, 168, 16, 77];
        let options = |options: &mut DatapathOptions| options.snat_v4 = Some(given.into());
        let mut node = Node::with(options, [resync(&[&remote(&[3])]).as_str()]);
        let request = Packet::new(Transport::Udp, CLIENT, EXTERNAL_IP);
        let seen_as = seen(&node.ingress(&request.frame()));
        assert_eq!(seen_as.0, given);
        let reply = request.from(seen_as).to(BACKEND).answer();
        let restored = reply.from(EXTERNAL_IP).to(CLIENT).forwarded();
        assert_eq!(
            node.ingress(&reply.frame()),
            Verdict::Redirect(restored.frame())
        );
    });
}

#[test]
fn when_every_port_towards_a_backend_is_in_use_the_next_connection_is_dropped() {
    needs_root!();
    in_network(|| {
        let mut node = node_with_ports(7);
        let clients: Vec<_> = (1..=7).map(|last| ([198, 51, 100, last], 40_000)).collect();
        let mut ports: Vec<_> = clients
            .iter()
            .map(|client| open(&mut node, *client).unwrap())
            .collect();
        ports.sort_unstable();
        assert_eq!(ports, (61_000..61_007).collect::<Vec<_>>(), "all of them");
        let late = ([198, 51, 100, 99], 40_000);
        assert_eq!(open(&mut node, late), None);
        assert_eq!(node.counters()["drop_no_port"], 1);

        // The same ports are free towards another backend, and for another protocol.
        let datagram = Packet::new(Transport::Udp, late, NODE_PORT);
        seen(&node.ingress(&datagram.frame()));
        node.apply(&update(&remote(&[4])));
        assert!(open(&mut node, late).is_some());
        assert_eq!(node.counters()["drop_no_port"], 1);
    });
}

#[test]
fn a_port_that_is_over_is_its_clients_ports_at_once_and_a_strangers_last() {
    needs_root!();
    in_network(|| {
        let mut node = node_with_ports(7);
        let client = |last| ([198, 51, 100, last], 40_000);
        let ports: Vec<_> = (0..6)
            .map(|last| open(&mut node, client(last)).unwrap())
            .collect();
        // 3, 1 and 4 end, in this order.
        for last in [3, 1, 4] {
            reset(&mut node, client(last));
            node.pass(2);
        }
        let free = (61_000..61_007).find(|port| !ports.contains(port));
        assert_eq!(open(&mut node, client(100)), free, "what nobody had");
        assert_eq!(
            open(&mut node, client(101)),
            Some(ports[3]),
            "what has been over for the longest"
        );
        // Another port of the client's is a stranger: its timestamps do not go on from there.
        assert_eq!(
            open(&mut node, (client(4).0, 40_001)),
            Some(ports[1]),
            "what has been over for the longest now"
        );
        assert_eq!(
            open(&mut node, client(4)),
            Some(ports[4]),
            "its own, at once"
        );
        reset(&mut node, client(4));
        assert_eq!(open(&mut node, client(102)), Some(ports[4]), "the last");
        assert_eq!(open(&mut node, client(103)), None);

        // Nobody was disturbed: the answers at each port are its holder's.
        for (port, holder) in [
            (ports[0], client(0)),
            (ports[1], (client(4).0, 40_001)),
            (ports[3], client(101)),
            (ports[4], client(102)),
        ] {
            let reply = Packet::new(Transport::TcpAck, BACKEND, (NODE, port));
            let restored = reply.from(NODE_PORT).to(holder).forwarded();
            assert_eq!(
                node.ingress(&reply.frame()),
                Verdict::Redirect(restored.frame())
            );
        }
    });
}

#[test]
fn with_95_percent_of_the_ports_in_use_new_connections_find_one() {
    const TRIES: u32 = 10_000;

    needs_root!();
    // The addresses are fixed, and so is the outcome.
    let client = |number: u32, port| {
        let [_, _, third, fourth] = number.to_be_bytes();
        ([198, 51, third, fourth], port)
    };
    in_network(|| {
        let large = |options: &mut DatapathOptions| options.sizes.conntrack = 200_000;
        let mut node = Node::with(large, [resync(&[&remote(&[3])]).as_str()]);
        let count = DatapathOptions::default().snat_ports.count;
        let live = u32::from(count) * 95 / 100;
        let mut opened = 0;
        for number in 0.. {
            if opened == live {
                break;
            }
            if let Some(port) = open(&mut node, client(number, 1000)) {
                let reply = Packet::new(Transport::TcpAck, BACKEND, (NODE, port));
                seen(&node.ingress(&reply.frame()));
                opened += 1;
            }
        }
        let (mut found, mut removed) = (0, 0);
        for number in 0..TRIES {
            let client = client(number, 50_000);
            if open(&mut node, client).is_some() {
                found += 1;
                reset(&mut node, client);
            }
            // At first the rest of the ports is free, later over, then forgotten and free again.
            if number % 1000 == 999 {
                removed += node.pass(11).removed;
            }
        }
        let share = f64::from(found) / f64::from(TRIES);
        println!(
            "{live} of {count} ports in use: {found} of {TRIES} new connections found one, \
             {:.2} %",
            100.0 * share
        );
        assert!(removed > 0, "connections that are over are forgotten");
        assert_eq!(node.pass(11).kept, 2 * live as usize, "and no others");
        assert!(share >= 0.998, "{share}");
    });
}
