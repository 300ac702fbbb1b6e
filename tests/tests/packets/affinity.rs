//! Session affinity: a client stays with the backend that it had last.

use std::collections::BTreeSet;

use super::{
    frame::{OPENING, Packet, Transport, destination},
    needs_root,
    node::{Node, resync, update, web},
};

const FRONTEND: ([u8; 4], u16) = ([10, 96, 0, 1], 80);

/// The service with affinity for a minute.
fn sticky(backends: &[(u8, u32)]) -> String {
    web(backends).replace(r#""ports":"#, r#""session_affinity_timeout":60,"ports":"#)
}

/// The backend of a new connection.
fn chosen(node: &mut Node, transport: Transport, client: [u8; 4], port: u16) -> u8 {
    let packet = Packet::new(transport, (client, port), FRONTEND);
    destination(&node.ingress(&packet.frame()).passed()).0[3]
}

const FOUR: [(u8, u32); 4] = [(3, 1), (4, 1), (5, 1), (6, 1)];

#[test]
fn connections_of_one_client_go_to_one_backend_and_clients_spread() {
    needs_root!();
    let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
    for transport in OPENING {
        let mut used = BTreeSet::new();
        for last in 100..160 {
            let client = [10, 1, 1, last];
            let first = chosen(&mut node, transport, client, 1000);
            for port in 1001..1010 {
                assert_eq!(chosen(&mut node, transport, client, port), first);
            }
            used.insert(first);
        }
        assert_eq!(used.len(), 4, "60 clients use all backends");
    }
}

#[test]
fn affinity_ends_some_time_after_the_last_connection() {
    needs_root!();
    let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
    let client = [10, 1, 1, 9];
    let first = chosen(&mut node, Transport::TcpSyn, client, 1000);
    for port in 1001..1020 {
        node.pass(59);
        assert_eq!(chosen(&mut node, Transport::TcpSyn, client, port), first);
    }
    let mut port = 2000;
    let moved = (0..64).any(|_| {
        node.pass(61);
        port += 1;
        chosen(&mut node, Transport::TcpSyn, client, port) != first
    });
    assert!(moved, "of 64 free choices among 4 one differs");
}

#[test]
fn a_client_whose_backend_takes_no_more_connections_gets_another_and_stays_there() {
    needs_root!();
    let client = [10, 1, 1, 9];
    for terminating in [false, true] {
        let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
        let first = chosen(&mut node, Transport::TcpSyn, client, 1000);
        let event = if terminating {
            let address = format!(r#""ip":"10.1.1.{first}","#);
            let ending = format!(r#"{address}"state":"Terminating","#);
            sticky(&FOUR).replace(&address, &ending)
        } else {
            let others: Vec<_> = FOUR
                .into_iter()
                .filter(|(last, _)| *last != first)
                .collect();
            sticky(&others)
        };
        node.apply(&update(&event));
        let second = chosen(&mut node, Transport::TcpSyn, client, 1001);
        assert_ne!(second, first);
        node.apply(&update(&sticky(&FOUR)));
        for port in 1002..1020 {
            assert_eq!(chosen(&mut node, Transport::TcpSyn, client, port), second);
        }
    }
}

#[test]
fn changes_of_other_backends_move_no_client() {
    needs_root!();
    let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
    let client = [10, 1, 1, 9];
    let first = chosen(&mut node, Transport::TcpSyn, client, 1000);
    for round in 0..20u8 {
        let new = (20 + round, u32::from(round) + 1);
        node.apply(&update(&sticky(&[(first, 1), new])));
        node.reclaim();
        let port = 1001 + u16::from(round);
        assert_eq!(chosen(&mut node, Transport::TcpSyn, client, port), first);
    }
}
