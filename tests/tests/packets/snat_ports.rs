//! Source ports of connections from outside, in both families.

use std::collections::BTreeSet;

use shunt_common::PortRange;
use shunt_datapath::DatapathOptions;

use super::{
    both_families,
    frame::{Packet, Transport},
    node::{Node, Verdict},
    world::{Backends, Family, cluster, in_network, node, node_with, seen},
};

/// The frontend, whose one backend is on another node.
const fn node_port<A: Family>() -> (A, u16) {
    (A::NODE, 30080)
}

/// A client outside.
fn client<A: Family>(number: u16, port: u16) -> (A, u16) {
    let mut address = A::OUTSIDER.as_ref().to_vec();
    let place = address.len() - 2;
    address[place..].copy_from_slice(&number.to_be_bytes());
    (A::of(&address), port)
}

/// One of many such, by number.
fn one<A: Family>(number: u16) -> (A, u16) {
    client(number, 40_000)
}

/// A node that has so many ports to give.
fn node_with_ports(count: u16) -> Node {
    let ports = |options: &mut DatapathOptions| {
        options.snat_ports = PortRange::within(61_000, 61_000 + count - 1).unwrap();
        assert_eq!(options.snat_ports.count, count, "a prime number");
    };
    node_with(ports, Backends::Elsewhere)
}

/// Opens a connection, which both sides acknowledge, and returns the source port that the backend sees;
/// `None` if it is dropped.
pub(crate) fn open<A: Family>(node: &mut Node, client: (A, u16)) -> Option<u16> {
    let syn = Packet::new(Transport::TcpSyn, client, node_port());
    match node.ingress(&syn.frame()) {
        Verdict::Drop => None,
        sent => {
            let (address, port) = seen::<A>(&sent);
            assert_eq!(address, A::NODE);
            let answer = Packet::new(Transport::TcpSynAck, (A::REMOTE, 8080), (A::NODE, port));
            node.ingress(&answer.frame());
            node.ingress(&syn.with(Transport::TcpAck).frame());
            Some(port)
        }
    }
}

/// Ends the client's connection.
fn reset<A: Family>(node: &mut Node, client: (A, u16)) {
    let reset = Packet::new(Transport::TcpRst, client, node_port());
    seen::<A>(&node.ingress(&reset.frame()));
}

both_families!(a_client_port_gets_the_same_source_port_again in in_network);
fn a_client_port_gets_the_same_source_port_again<A: Family>() {
    let ports = |node: &mut Node| -> Vec<_> {
        let clients = (40_000..40_050).map(|port| client::<A>(5, port));
        clients.map(|client| open(node, client).unwrap()).collect()
    };
    let mut first = node(Backends::Elsewhere);
    let before = ports(&mut first);
    assert_eq!(ports(&mut first), before, "the same SYNs again");
    for port in 40_000..40_050 {
        reset::<A>(&mut first, client(5, port));
    }
    assert_eq!(ports(&mut first), before, "new connections");
    assert_eq!(
        ports(&mut node(Backends::Elsewhere)),
        before,
        "at another time"
    );
    let different: BTreeSet<_> = before.iter().collect();
    assert_eq!(different.len(), before.len(), "each has one of its own");
}

both_families!(when_every_port_towards_a_backend_is_in_use_the_next_connection_is_dropped in in_network);
fn when_every_port_towards_a_backend_is_in_use_the_next_connection_is_dropped<A: Family>() {
    let mut node = node_with_ports(7);
    let clients: Vec<_> = (1..=7).map(one::<A>).collect();
    let mut ports: Vec<_> = clients
        .iter()
        .map(|client| open(&mut node, *client).unwrap())
        .collect();
    ports.sort_unstable();
    assert_eq!(ports, (61_000..61_007).collect::<Vec<_>>(), "all of them");
    let late = one::<A>(99);
    assert_eq!(open(&mut node, late), None);
    assert_eq!(node.counters()["drop_no_port"], 1);

    // The same ports are free towards another backend, and for another protocol.
    let datagram = Packet::new(Transport::Udp, late, node_port());
    seen::<A>(&node.ingress(&datagram.frame()));
    node.apply(
        &cluster(Backends::Elsewhere)
            .replace("1:2::3", "1:2::4")
            .replace("10.1.2.3", "10.1.2.4"),
    );
    assert!(open(&mut node, late).is_some());
    assert_eq!(node.counters()["drop_no_port"], 1);
}

both_families!(a_port_that_a_frontend_has_is_given_to_no_connection in in_network);
fn a_port_that_a_frontend_has_is_given_to_no_connection<A: Family>() {
    let mut node = node_with_ports(7);
    node.apply(
        r#"{"event":"AddService","service":{"id":{"namespace":"default","name":"api"},"cluster_ips":["10.96.0.9","fd00:96::9"],"ports":{"http":{"protocol":"TCP","port":81,"node_port":61003}}}}"#,
    );
    let mut ports: Vec<_> = (1..=6)
        .map(|number| open(&mut node, one::<A>(number)).unwrap())
        .collect();
    ports.sort_unstable();
    let others = (61_000..61_007).filter(|port| *port != 61_003);
    assert_eq!(ports, others.collect::<Vec<_>>());
    assert_eq!(open(&mut node, one::<A>(7)), None);
    assert_eq!(node.counters()["drop_no_port"], 1);
    // The frontend is of TCP alone.
    let flows: BTreeSet<_> = (1..=7)
        .map(|number| {
            let datagram = Packet::new(Transport::Udp, one::<A>(number), node_port());
            seen::<A>(&node.ingress(&datagram.frame())).1
        })
        .collect();
    assert_eq!(flows.len(), 7, "{flows:?}");
}

both_families!(a_port_that_is_over_is_its_clients_ports_at_once_and_a_strangers_last in in_network);
fn a_port_that_is_over_is_its_clients_ports_at_once_and_a_strangers_last<A: Family>() {
    let mut node = node_with_ports(7);
    let ports: Vec<_> = (0..6)
        .map(|last| open(&mut node, one::<A>(last)).unwrap())
        .collect();
    // 3, 1 and 4 end, in this order.
    for last in [3, 1, 4] {
        reset(&mut node, one::<A>(last));
        node.pass(2);
    }
    let free = (61_000..61_007).find(|port| !ports.contains(port));
    assert_eq!(open(&mut node, one::<A>(100)), free, "what nobody had");
    assert_eq!(
        open(&mut node, one::<A>(101)),
        Some(ports[3]),
        "what has been over for the longest"
    );
    // Another port of the client's is a stranger: its timestamps do not go on from there.
    assert_eq!(
        open(&mut node, client::<A>(4, 40_001)),
        Some(ports[1]),
        "what has been over for the longest now"
    );
    assert_eq!(
        open(&mut node, one::<A>(4)),
        Some(ports[4]),
        "its own, at once"
    );
    reset(&mut node, one::<A>(4));
    assert_eq!(open(&mut node, one::<A>(102)), Some(ports[4]), "the last");
    assert_eq!(open(&mut node, one::<A>(103)), None);

    // No flow was disturbed: the answers at each port are its holder's.
    for (port, holder) in [
        (ports[0], one::<A>(0)),
        (ports[1], client(4, 40_001)),
        (ports[3], one::<A>(101)),
        (ports[4], one::<A>(102)),
    ] {
        check_holder(&mut node, port, holder, Transport::TcpAck);
    }
}

/// Returns whether what the backend sends to this port goes to this client.
#[track_caller]
fn check_holder<A: Family>(node: &mut Node, port: u16, holder: (A, u16), answer: Transport) {
    let reply = Packet::new(answer, (A::REMOTE, 8080), (A::NODE, port));
    let restored = reply.from(node_port()).to(holder).forwarded();
    assert_eq!(
        node.ingress(&reply.frame()),
        Verdict::Redirect(restored.frame())
    );
}

both_families!(a_reset_alone_costs_no_connection_its_port_in_a_flood in in_network);
fn a_reset_alone_costs_no_connection_its_port_in_a_flood<A: Family>() {
    let mut node = node_with_ports(13);
    let ports: Vec<_> = (0..3)
        .map(|last| open(&mut node, one::<A>(last)).unwrap())
        .collect();
    for last in 0..3 {
        reset(&mut node, one::<A>(last));
    }
    for seconds in [0, 1, 60] {
        node.pass(seconds);
        for last in 10..200 {
            let syn = Packet::new(Transport::TcpSyn, one::<A>(last), node_port());
            let (_, port) = seen::<A>(&node.ingress(&syn.frame()));
            assert!(!ports.contains(&port), "{port} is of an open connection");
        }
    }
    for (last, port) in (0..).zip(ports) {
        check_holder(&mut node, port, one::<A>(last), Transport::TcpAck);
    }
}

both_families!(connections_that_end_by_resets_leave_their_ports_and_no_handshake_does in in_network);
fn connections_that_end_by_resets_leave_their_ports_and_no_handshake_does<A: Family>() {
    let mut node = node_with_ports(7);
    for last in 0..6 {
        open(&mut node, one::<A>(last)).unwrap();
        reset(&mut node, one::<A>(last));
    }
    node.pass(60);
    let syn = Packet::new(Transport::TcpSyn, one::<A>(6), node_port());
    let (_, port) = seen::<A>(&node.ingress(&syn.frame()));
    for last in 10..100 {
        assert_ne!(open(&mut node, one::<A>(last)).unwrap(), port);
        reset(&mut node, one::<A>(last));
    }
    check_holder(&mut node, port, one::<A>(6), Transport::TcpSynAck);
}

both_families!(with_95_percent_of_the_ports_in_use_new_connections_find_one in in_network);
fn with_95_percent_of_the_ports_in_use_new_connections_find_one<A: Family>() {
    const TRIES: u16 = 10_000;

    // The addresses are fixed, and so is the outcome.
    let large = |options: &mut DatapathOptions| options.sizes.conntrack = 200_000;
    let mut node = node_with(large, Backends::Elsewhere);
    let count = DatapathOptions::default().snat_ports.count;
    let live = u32::from(count) * 95 / 100;
    let mut opened = 0;
    for number in 0.. {
        if opened == live {
            break;
        }
        if let Some(port) = open(&mut node, client::<A>(number, 1000)) {
            let reply = Packet::new(Transport::TcpAck, (A::REMOTE, 8080), (A::NODE, port));
            seen::<A>(&node.ingress(&reply.frame()));
            opened += 1;
        }
    }
    let (mut found, mut removed) = (0, 0);
    for number in 0..TRIES {
        let client = client::<A>(number, 50_000);
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
        "{live} of {count} ports in use: {found} of {TRIES} new connections found one, {:.2} %",
        100.0 * share
    );
    assert!(removed > 0, "connections that are over are forgotten");
    assert_eq!(node.pass(11), live as usize, "and no others");
    assert!(share >= 0.998, "{share}");
}

both_families!(the_last_ports_are_found in in_network);
fn the_last_ports_are_found<A: Family>() {
    const COUNT: u16 = 997;

    let mut node = node_with_ports(COUNT);
    let mut ports: BTreeSet<_> = (0..COUNT - 10)
        .map(|number| open(&mut node, one::<A>(number)).unwrap())
        .collect();
    for number in COUNT - 10..COUNT {
        let port = open(&mut node, one::<A>(number));
        assert!(port.is_some(), "{} are left", COUNT - number);
        ports.extend(port);
    }
    assert_eq!(ports.len(), usize::from(COUNT), "each has one of its own");
    assert_eq!(open(&mut node, one::<A>(COUNT)), None);
}

/// A datagram of the client's; returns the port that its backend sees, if it is sent on.
fn ask<A: Family>(node: &mut Node, client: (A, u16)) -> Option<u16> {
    let datagram = Packet::new(Transport::Udp, client, node_port());
    match node.ingress(&datagram.frame()) {
        Verdict::Drop => None,
        sent => Some(seen::<A>(&sent).1),
    }
}

both_families!(the_flow_that_has_been_silent_for_the_longest_gives_its_port in in_network);
fn the_flow_that_has_been_silent_for_the_longest_gives_its_port<A: Family>() {
    let mut node = node_with_ports(7);
    let ports: Vec<_> = (0..7)
        .map(|number| ask(&mut node, one::<A>(number)).unwrap())
        .collect();
    let exchange = |node: &mut Node, number: u16| {
        let port = ports[usize::from(number)];
        check_holder(node, port, one::<A>(number), Transport::Udp);
        assert_eq!(ask(node, one::<A>(number)), Some(port));
    };
    // They last, so that all are to stay.
    for _ in 0..2 {
        node.pass(3);
        (0..7).for_each(|number| exchange(&mut node, number));
    }
    assert_eq!(ask(&mut node, one::<A>(99)), None, "nobody pauses");
    // The sixth has been silent for the longest, then the third. The others speak again.
    node.pass(20);
    exchange(&mut node, 2);
    node.pass(40);
    for number in [0, 1, 3, 4, 6] {
        exchange(&mut node, number);
    }
    assert_eq!(ask(&mut node, one::<A>(100)), Some(ports[5]));
    check_holder(&mut node, ports[5], one::<A>(100), Transport::Udp);
    for number in [0, 1, 2, 3, 4, 6] {
        exchange(&mut node, number);
    }
}

both_families!(of_half_open_connections_the_oldest_gives_its_port in in_network);
fn of_half_open_connections_the_oldest_gives_its_port<A: Family>() {
    let mut node = node_with_ports(7);
    let syn = |node: &mut Node, number: u16| {
        let syn = Packet::new(Transport::TcpSyn, one::<A>(number), node_port());
        seen::<A>(&node.ingress(&syn.frame())).1
    };
    let established = open(&mut node, one::<A>(50)).unwrap();
    // In an order of age that is neither that of their numbers nor that of their ports.
    let order = [3, 0, 5, 1, 4, 2];
    let mut ports = [0; 6];
    for number in order {
        ports[usize::from(number)] = syn(&mut node, number);
        node.pass(3);
    }
    for (number, old) in (10..).zip(order) {
        assert_eq!(syn(&mut node, number), ports[usize::from(old)], "{old}");
        node.pass(3);
    }
    check_holder(&mut node, established, one::<A>(50), Transport::TcpAck);
}
