//! Frontends that select by a Maglev table: the choice follows from the packet and the backends alone.

use std::collections::BTreeSet;

use shunt_common::{
    TCP, Tuple, UDP, V4,
    connections::{Key, Role},
    maglev::{client_number, number},
};
use shunt_model::maglev::{EntriesPerBackend, Member, table};

use super::{
    both_families,
    frame::{Packet, Transport, destination, destination_of},
    needs_root,
    node::{Node, resync, update, web},
    world::{self, Family},
};

const FRONTEND: ([u8; 4], u16) = ([203, 0, 113, 7], 80);

const FIVE: [(u8, u32); 5] = [(3, 1), (4, 1), (5, 2), (6, 0), (7, 3)];

/// The service with these backends, selected from by Maglev.
fn maglev(backends: &[(u8, u32)]) -> String {
    web(backends).replace(r#""ports":"#, r#""selection":"maglev","ports":"#)
}

/// Room for some tables.
fn node(service: &str) -> Node {
    Node::with(
        |options| {
            options.sizes.slots = 16_384;
            options.sizes.conntrack = 1 << 19;
        },
        [resync(&[service]).as_str()],
    )
}

/// The backend, by its last byte, that the table of these names for the number.
fn named(backends: &[(u8, u32)], number: u32) -> u8 {
    let members: Vec<_> = backends
        .iter()
        .map(|(last, weight)| Member {
            ip: [10, 1, 1, *last].into(),
            port: 8080,
            weight: *weight,
        })
        .collect();
    let usable = members.iter().filter(|member| member.weight > 0).count();
    let table = table(&members, EntriesPerBackend::default().table_size(usable)).unwrap();
    let entry = (u64::from(number) * table.len() as u64) >> 32;
    backends[usize::from(table[entry as usize])].0
}

fn number_of(protocol: u8, (client, port): ([u8; 4], u16)) -> u32 {
    let (frontend, frontend_port) = FRONTEND;
    let tuple = Tuple::<V4> {
        source: u32::from_ne_bytes(client),
        destination: u32::from_ne_bytes(frontend),
        source_port: port.to_be(),
        destination_port: frontend_port.to_be(),
    };
    number(&Key::new(&tuple, protocol, Role::Forward))
}

/// The backend of a new connection.
fn chosen(node: &mut Node, transport: Transport, client: ([u8; 4], u16)) -> u8 {
    let packet = Packet::new(transport, client, FRONTEND);
    destination(&node.ingress(&packet.frame()).passed()).0[3]
}

#[test]
fn a_packet_gets_the_backend_that_the_table_names_for_it() {
    needs_root!();
    let mut node = node(&maglev(&FIVE));
    let mut seen = BTreeSet::new();
    for port in 1000..1400 {
        let client = ([10, 1, 1, 9], port);
        for (transport, protocol) in [
            (Transport::TcpSyn, TCP),
            // Without a SYN before it, as at a node that the flow has come to.
            (Transport::TcpAck, TCP),
            (Transport::Udp, UDP),
        ] {
            let wanted = named(&FIVE, number_of(protocol, client));
            assert_eq!(chosen(&mut node, transport, client), wanted);
            seen.insert(wanted);
        }
    }
    assert_eq!(seen, BTreeSet::from([3, 4, 5, 7]), "6 has no weight");
    assert!(!node.counters().contains_key("drop_corrupt"));
}

/// Returns the destinations of a pod's packets to the service, by its many ports and all protocols.
fn targets<A: Family>(node: &mut Node) -> Vec<(A, u16)> {
    (1000..1200)
        .flat_map(|port| world::SERVED.map(|transport| (port, transport)))
        .map(|(port, transport)| {
            let packet = Packet::new(transport, (A::POD, port), (A::CLUSTER_IP, 80));
            destination_of(&node.ingress(&packet.frame()).passed())
        })
        .collect()
}

#[test]
fn nodes_that_were_told_otherwise_agree_in_both_families() {
    needs_root!();
    let backend = |last: u32, local: bool| {
        format!(
            r#"{{"ip":"10.1.1.{last}","port":8080,"local":{local}}},{{"ip":"fd00:10:1:1::{last}","port":8080,"local":{local}}}"#
        )
    };
    let event = |backends: Vec<String>| {
        let one = world::cluster(world::Backends::Elsewhere);
        let begin = one.find(r#","backends":"#).unwrap();
        let ports = ["TCP", "UDP", "SCTP"]
            .map(|name| format!(r#""{name}":[{}]"#, backends.join(",")))
            .join(",");
        format!(
            r#"{},"selection":"maglev","backends":{{{ports}}}}}]}}"#,
            &one[..begin]
        )
    };
    let here = event((3..9).map(|last| backend(last, last < 5)).collect());
    let there = event((3..9).rev().map(|last| backend(last, last > 6)).collect());
    let sizes = |options: &mut shunt_datapath::DatapathOptions| options.sizes.slots = 16_384;
    let mut here = Node::with(sizes, [here.as_str()]);
    let mut there = Node::with(sizes, [there.as_str()]);
    let v4 = targets::<world::V4>(&mut here);
    assert_eq!(v4, targets(&mut there));
    let v6 = targets::<world::V6>(&mut here);
    assert_eq!(v6, targets(&mut there));
    for count in [
        v4.iter().collect::<BTreeSet<_>>().len(),
        v6.iter().collect::<BTreeSet<_>>().len(),
    ] {
        assert_eq!(count, 6);
    }
}

#[test]
fn two_nodes_agree_on_a_hundred_thousand_packets() {
    needs_root!();
    // Told of other services before, of the backends one by one, and of another order.
    let mut first = node(&maglev(&FIVE));
    let mut second = node(&maglev(&[(9, 1), (8, 2)]).replace("default", "other"));
    second.apply(&update(&maglev(&[(7, 3)])));
    second.apply(&update(&maglev(&[(3, 5), (4, 1), (9, 9)])));
    second.apply(r#"{"event":"DeleteService","id":{"namespace":"other","name":"web"}}"#);
    second.apply(&update(&maglev(&[(7, 3), (5, 2), (4, 1), (3, 1), (6, 0)])));
    let mut shares = [0u32; 256];
    for client in 0..10 {
        for port in 1000..11_000 {
            let client = ([10, 1, 1, 100 + client], port);
            let backend = chosen(&mut first, Transport::Udp, client);
            assert_eq!(chosen(&mut second, Transport::Udp, client), backend);
            shares[usize::from(backend)] += 1;
        }
    }
    for (last, weight) in FIVE {
        let ideal = f64::from(weight) * 100_000.0 / 7.0;
        let share = f64::from(shares[usize::from(last)]);
        assert!(
            (share - ideal).abs() <= ideal / 20.0,
            "{last}: {share}, and not {ideal}"
        );
    }
}

#[test]
fn a_client_that_stays_is_chosen_for_by_its_address() {
    needs_root!();
    let sticky = |backends: &[(u8, u32)]| {
        maglev(backends).replace(r#""ports":"#, r#""session_affinity_timeout":60,"ports":"#)
    };
    let mut node = node(&sticky(&FIVE));
    let mut seen = BTreeSet::new();
    for last in 100..160 {
        let client = [10, 1, 1, last];
        let wanted = named(&FIVE, client_number::<V4>(u32::from_ne_bytes(client)));
        for port in 1000..1010 {
            let chosen = chosen(&mut node, Transport::TcpSyn, (client, port));
            assert_eq!(chosen, wanted, "{client:?}");
        }
        seen.insert(wanted);
    }
    assert_eq!(seen.len(), 4);

    // It stays, whatever the table of other backends has.
    let more: Vec<_> = FIVE.into_iter().chain([(8, 6)]).collect();
    node.apply(&update(&sticky(&more)));
    let mut moved = 0;
    for last in 100..160 {
        let client = [10, 1, 1, last];
        let number = client_number::<V4>(u32::from_ne_bytes(client));
        let before = named(&FIVE, number);
        assert_eq!(chosen(&mut node, Transport::TcpSyn, (client, 2000)), before);
        moved += u32::from(named(&more, number) != before);
    }
    assert!(moved > 10, "{moved} of 60 would have moved");
}

#[test]
fn a_change_moves_what_the_table_of_the_others_says_and_no_connection() {
    needs_root!();
    let four = [(3, 1), (4, 1), (5, 1), (6, 1)];
    let mut node = node(&maglev(&four));
    let client = |port| ([10, 1, 1, 9], port);
    for port in 1000..1100 {
        chosen(&mut node, Transport::TcpSyn, client(port));
    }
    node.apply(&update(&maglev(&four[1..])));
    for port in 1000..1100 {
        let number = number_of(TCP, client(port));
        let known = chosen(&mut node, Transport::TcpAck, client(port));
        assert_eq!(known, named(&four, number), "a connection stays");
        let new = chosen(&mut node, Transport::TcpSyn, client(port + 1000));
        let number = number_of(TCP, client(port + 1000));
        assert_eq!(new, named(&four[1..], number));
    }
}

/// A service of these backends of both families, three times by its ports' protocols, and with further fields.
fn backends_of(name: &str, number: u8, lasts: &[u16], says: &str) -> String {
    let backends: Vec<String> = lasts
        .iter()
        .flat_map(|last| [format!("10.1.1.{last}"), format!("fd00:10:1:1::{last:x}")])
        .map(|ip| format!(r#"{{"ip":"{ip}","port":8080,"local":false}}"#))
        .collect();
    let backends = backends.join(",");
    let ports = ["TCP", "UDP", "SCTP"];
    let lists = ports.map(|port| format!(r#""{port}":[{backends}]"#));
    let ports = ports.map(|port| format!(r#""{port}":{{"protocol":"{port}","port":80}}"#));
    let (v4, v6) = (world::V4::CLUSTER_IP, world::V6::CLUSTER_IP);
    let (mut v4, mut v6) = (world::ip(v4), world::ip(v6));
    if number > 0 {
        v4 = [10, 96, 7, number].into();
        v6 = [0xfd00, 0x96, 0, 0, 0, 0, 7, u16::from(number)].into();
    }
    format!(
        r#"{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":["{v4}","{v6}"],{says}"ports":{{{}}},"backends":{{{}}}}}"#,
        ports.join(","),
        lists.join(",")
    )
}

both_families!(a_table_gives_way_and_connections_stay);
fn a_table_gives_way_and_connections_stay<A: Family>() {
    let web = backends_of("web", 0, &[3, 4, 5, 6], r#""selection":"maglev","#);
    let mut node = Node::with(
        |options| {
            options.sizes.slots = 400;
            options.sizes.backends = 512;
        },
        [resync(&[&web]).as_str()],
    );
    let has_table = |node: &Node| node.services_without_table().is_empty();
    assert!(has_table(&node));
    let packet = |transport, port| {
        let packet = Packet::new(transport, (A::POD, port), (A::CLUSTER_IP, 80));
        packet.frame()
    };
    let target = |node: &mut Node, transport, port| -> (A, u16) {
        destination_of(&node.ingress(&packet(transport, port)).passed())
    };
    let ports = 1000..1100;
    let before: Vec<_> = ports
        .clone()
        .map(|port| target(&mut node, Transport::TcpSyn, port))
        .collect();
    // 36 slots each, until there is less room than the table has.
    let lasts: Vec<u16> = (20..32).collect();
    for number in 1..=5 {
        let plain = backends_of(&format!("plain-{number}"), number, &lasts, "");
        node.apply(&update(&plain));
    }
    assert!(!has_table(&node), "it gave way");
    let after = ports.clone();
    let after: Vec<_> = after
        .map(|port| target(&mut node, Transport::TcpAck, port))
        .collect();
    assert_eq!(after, before, "open connections stay");
    let new: BTreeSet<_> = (2000..2200)
        .map(|port| target(&mut node, Transport::TcpSyn, port))
        .map(|(address, _)| world::ip(address))
        .collect();
    assert_eq!(new.len(), 4, "new ones are spread by weight: {new:?}");
    for number in 1..=5 {
        let id = format!(r#"{{"namespace":"default","name":"plain-{number}"}}"#);
        node.apply(&format!(r#"{{"event":"DeleteService","id":{id}}}"#));
    }
    node.reclaim();
    assert!(has_table(&node), "it is back");
    // As a node that always had it.
    let mut fresh = Node::with(
        |options| options.sizes.slots = 400,
        [resync(&[&web]).as_str()],
    );
    for port in 3000..3200 {
        let found = target(&mut node, Transport::TcpSyn, port);
        assert_eq!(found, target(&mut fresh, Transport::TcpSyn, port));
    }
    let counters = node.counters();
    assert!(!counters.contains_key("drop_corrupt"), "{counters:?}");
}

#[test]
fn without_room_for_the_table_connections_are_spread_by_weight() {
    needs_root!();
    let mut node = Node::new([resync(&[&maglev(&FIVE)]).as_str()]);
    let seen: BTreeSet<u8> = (1000..1200)
        .map(|port| chosen(&mut node, Transport::TcpSyn, ([10, 1, 1, 9], port)))
        .collect();
    assert_eq!(seen, BTreeSet::from([3, 4, 5, 7]));
}
