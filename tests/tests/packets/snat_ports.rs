//! Which source ports connections from outside are given.

use std::collections::BTreeSet;

use shunt_common::PortRange;
use shunt_datapath::DatapathOptions;

use super::{
    frame::{Packet, Transport},
    needs_root,
    node::{NODE, Node, Verdict, resync, update},
    snat::{BACKEND, CLIENT, Endpoint, NODE_PORT, node, remote},
    world::{in_network, seen},
};

/// A node that has so many ports to give.
fn node_with_ports(count: u16) -> Node {
    let ports = |options: &mut DatapathOptions| {
        options.snat_ports = PortRange::within(61_000, 61_000 + count - 1).unwrap();
        assert_eq!(options.snat_ports.count, count, "a prime number");
    };
    Node::with(ports, [resync(&[&remote(&[3])]).as_str()])
}

/// Opens a connection, which both sides acknowledge, and gives the source port that the backend sees;
/// `None` if it is dropped.
pub(crate) fn open(node: &mut Node, client: Endpoint) -> Option<u16> {
    let syn = Packet::new(Transport::TcpSyn, client, NODE_PORT);
    match node.ingress(&syn.frame()) {
        Verdict::Drop => None,
        sent => {
            let (address, port): Endpoint = seen(&sent);
            assert_eq!(address, NODE);
            let answer = Packet::new(Transport::TcpSynAck, BACKEND, (NODE, port));
            node.ingress(&answer.frame());
            node.ingress(&syn.with(Transport::TcpAck).frame());
            Some(port)
        }
    }
}

/// Ends the client's connection.
fn reset(node: &mut Node, client: Endpoint) {
    let reset = Packet::new(Transport::TcpRst, client, NODE_PORT);
    seen::<[u8; 4]>(&node.ingress(&reset.frame()));
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
        seen::<[u8; 4]>(&node.ingress(&datagram.frame()));
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
            check_holder(&mut node, port, holder, Transport::TcpAck);
        }
    });
}

/// Whether what the backend sends to this port goes to this client.
#[track_caller]
fn check_holder(node: &mut Node, port: u16, holder: Endpoint, answer: Transport) {
    let reply = Packet::new(answer, BACKEND, (NODE, port));
    let restored = reply.from(NODE_PORT).to(holder).forwarded();
    assert_eq!(
        node.ingress(&reply.frame()),
        Verdict::Redirect(restored.frame())
    );
}

#[test]
fn a_reset_alone_costs_no_connection_its_port_in_a_flood() {
    needs_root!();
    in_network(|| {
        let mut node = node_with_ports(13);
        let client = |last| ([198, 51, 100, last], 40_000);
        let ports: Vec<_> = (0..3)
            .map(|last| open(&mut node, client(last)).unwrap())
            .collect();
        for last in 0..3 {
            reset(&mut node, client(last));
        }
        for seconds in [0, 1, 60] {
            node.pass(seconds);
            for last in 10..200 {
                let syn = Packet::new(Transport::TcpSyn, client(last), NODE_PORT);
                let (_, port): Endpoint = seen(&node.ingress(&syn.frame()));
                assert!(!ports.contains(&port), "{port} is of an open connection");
            }
        }
        for (last, port) in (0..).zip(ports) {
            check_holder(&mut node, port, client(last), Transport::TcpAck);
        }
    });
}

#[test]
fn connections_that_end_by_resets_leave_their_ports_and_no_handshake_does() {
    needs_root!();
    in_network(|| {
        let mut node = node_with_ports(7);
        let client = |last| ([198, 51, 100, last], 40_000);
        for last in 0..6 {
            open(&mut node, client(last)).unwrap();
            reset(&mut node, client(last));
        }
        node.pass(60);
        let syn = Packet::new(Transport::TcpSyn, client(6), NODE_PORT);
        let (_, port): Endpoint = seen(&node.ingress(&syn.frame()));
        for last in 10..100 {
            assert_ne!(open(&mut node, client(last)).unwrap(), port);
            reset(&mut node, client(last));
        }
        check_holder(&mut node, port, client(6), Transport::TcpSynAck);
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
                seen::<[u8; 4]>(&node.ingress(&reply.frame()));
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
                let before = node.connections().len();
                removed += before - node.pass(11);
            }
        }
        let share = f64::from(found) / f64::from(TRIES);
        println!(
            "{live} of {count} ports in use: {found} of {TRIES} new connections found one, \
             {:.2} %",
            100.0 * share
        );
        assert!(removed > 0, "connections that are over are forgotten");
        assert_eq!(node.pass(11), live as usize, "and no others");
        assert!(share >= 0.998, "{share}");
    });
}
