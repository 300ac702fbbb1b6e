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
    chosen_at(FRONTEND, node, transport, client, port)
}

/// The backend of a new connection to this frontend.
fn chosen_at(
    frontend: ([u8; 4], u16),
    node: &mut Node,
    transport: Transport,
    client: [u8; 4],
    port: u16,
) -> u8 {
    let packet = Packet::new(transport, (client, port), frontend);
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

/// All frontends of the service.
const FRONTENDS: [([u8; 4], u16); 4] = [
    FRONTEND,
    ([203, 0, 113, 7], 80),
    ([192, 168, 16, 10], 30080),
    ([192, 168, 16, 20], 30080),
];

#[test]
fn a_client_has_one_backend_at_all_frontends_of_a_service_port() {
    needs_root!();
    let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
    let mut differ = false;
    for last in 100..140 {
        let client = [10, 1, 1, last];
        let first = FRONTENDS[usize::from(last) % 4];
        let of_tcp = chosen_at(first, &mut node, Transport::TcpSyn, client, 1000);
        for (frontend, port) in FRONTENDS.into_iter().zip(1001..) {
            let found = chosen_at(frontend, &mut node, Transport::TcpSyn, client, port);
            assert_eq!(found, of_tcp, "{first:?}, then {frontend:?}");
        }
        differ |= chosen(&mut node, Transport::Udp, client, 1000) != of_tcp;
    }
    assert!(
        differ,
        "another port of the service is another service port"
    );
}

#[test]
fn a_use_of_any_frontend_is_a_use() {
    needs_root!();
    let mut node = Node::new([resync(&[&sticky(&FOUR)]).as_str()]);
    let client = [10, 1, 1, 9];
    let first = chosen(&mut node, Transport::TcpSyn, client, 1000);
    for port in 1001..1020 {
        node.pass(59);
        let frontend = FRONTENDS[usize::from(port) % 4];
        let found = chosen_at(frontend, &mut node, Transport::TcpSyn, client, port);
        assert_eq!(found, first);
    }
}

#[test]
fn affinity_is_among_the_backends_of_the_frontends_own_set() {
    needs_root!();
    // Under policy Local clients outside have two of the four.
    let service = sticky(&FOUR).replace(
        r#""external_ips""#,
        r#""traffic_policy":"Local","external_ips""#,
    );
    let service = ["10.1.1.3", "10.1.1.4"]
        .iter()
        .fold(service, |service, remote| {
            let address = format!(r#""ip":"{remote}","#);
            service.replace(&address, &format!(r#"{address}"scopes":["Cluster"],"#))
        });
    let mut node = Node::new([resync(&[&service]).as_str()]);
    let [cluster, external, ..] = FRONTENDS;
    let (mut stayed, mut moved) = (0, 0);
    for last in 1..60 {
        let client = [198, 51, 100, last];
        let first = chosen_at(cluster, &mut node, Transport::TcpSyn, client, 1000);
        let of_local = chosen_at(external, &mut node, Transport::TcpSyn, client, 1001);
        assert!([5, 6].contains(&of_local), "{of_local} is in no Local set");
        if [5, 6].contains(&first) {
            assert_eq!(of_local, first, "it is in this set too");
            stayed += 1;
        } else {
            moved += 1;
        }
        for port in 1002..1010 {
            let frontend = if port % 2 == 0 { cluster } else { external };
            let found = chosen_at(frontend, &mut node, Transport::TcpSyn, client, port);
            assert_eq!(found, of_local, "whom it had last is in both sets");
        }
    }
    assert!(stayed > 0 && moved > 0, "{stayed} stayed, {moved} moved");
}
