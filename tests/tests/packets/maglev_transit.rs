//! Maglev tables for clients outside whose backends are on other nodes, at either hook.

use std::{collections::BTreeMap, net::IpAddr};

use shunt_common::{
    TCP, Tuple, UDP,
    connections::{Key, Role, Wide},
    maglev::{client_number, number},
};
use shunt_model::maglev::{EntriesPerBackend, Member, table};

use super::{
    both_families,
    frame::{Packet, Transport, destination_of, source_of},
    hooks::Hooks,
    node::{Node, Verdict},
    world::{Backends, Family, V4, V6, cluster, in_network},
};

/// The backends by the last byte of their addresses, with their weights.
const BACKENDS: [(u8, u32); 4] = [(3, 1), (4, 2), (5, 1), (6, 3)];

/// A family of the tests as the programs have it.
trait Numbered: Family + Into<IpAddr> {
    type Kernel: Wide;

    fn kernel(self) -> <Self::Kernel as shunt_common::Family>::Address;
}

impl Numbered for V4 {
    type Kernel = shunt_common::V4;

    fn kernel(self) -> u32 {
        u32::from_ne_bytes(self)
    }
}

impl Numbered for V6 {
    type Kernel = shunt_common::V6;

    fn kernel(self) -> [u32; 4] {
        let (words, _) = self.as_chunks();
        [0, 1, 2, 3].map(|place| u32::from_ne_bytes(words[place]))
    }
}

/// The address of a backend: that of [`Family::REMOTE`] with another last byte.
fn backend<A: Family>(last: u8) -> A {
    let mut bytes = A::REMOTE.as_ref().to_vec();
    *bytes.last_mut().unwrap() = last;
    A::of(&bytes)
}

/// The cluster with these backends, each of one of two other nodes.
fn event(fields: &str) -> String {
    let backends = BACKENDS.into_iter().flat_map(|(last, weight)| {
        [backend::<V4>(last).into(), backend::<V6>(last).into()].map(|ip: IpAddr| {
            serde_json::json!({ "ip": ip, "port": 8080, "local": false, "weight": weight })
        })
    });
    let backends: serde_json::Value = backends.collect();
    let mut event: serde_json::Value = serde_json::from_str(&cluster(Backends::Elsewhere)).unwrap();
    for name in ["TCP", "UDP", "SCTP"] {
        event["services"][0]["backends"][name] = backends.clone();
    }
    event.to_string().replacen(
        r#""ports""#,
        &format!(r#""selection":"maglev",{fields}"ports""#),
        1,
    )
}

fn node(fields: &str) -> Node {
    Node::with(
        |options| options.sizes.slots = 16_384,
        [event(fields).as_str()],
    )
}

/// The backend that the table names for the number.
fn named<A: Numbered>(number: u32) -> A {
    let members = BACKENDS.map(|(last, weight)| Member {
        ip: backend::<A>(last).into(),
        port: 8080,
        weight,
    });
    let size = EntriesPerBackend::default().table_size(members.len());
    let table = table(&members, size).unwrap();
    let entry = (u64::from(number) * table.len() as u64) >> 32;
    backend(BACKENDS[usize::from(table[entry as usize])].0)
}

fn number_of<A: Numbered>(protocol: u8, source: (A, u16), destination: (A, u16)) -> u32 {
    let tuple = Tuple::<A::Kernel> {
        source: source.0.kernel(),
        destination: destination.0.kernel(),
        source_port: source.1.to_be(),
        destination_port: destination.1.to_be(),
    };
    number(&Key::new(&tuple, protocol, Role::Forward))
}

/// The backend to which the packet goes on from this node's address.
#[track_caller]
fn sent_to<A: Family>(node: &mut Node, packet: &Packet<A>) -> A {
    let Verdict::Redirect(sent) = node.ingress(&packet.frame()) else {
        panic!("not forwarded: {packet:?}");
    };
    let (source, destination) = (source_of::<A>(&sent), destination_of::<A>(&sent));
    let at_backend = packet.from(source).to(destination).forwarded();
    assert_eq!(sent, at_backend.frame());
    assert_eq!((source.0, destination.1), (A::NODE, 8080));
    destination.0
}

both_families!(a_client_outside_gets_the_backend_that_the_table_names_at_either_hook in in_network);
fn a_client_outside_gets_the_backend_that_the_table_names_at_either_hook<A: Numbered>() {
    let mut node = node("");
    let mut seen = BTreeMap::new();
    let mut packets = 0;
    for port in 40_000..40_060 {
        let client = (A::OUTSIDER, port);
        for frontend in [(A::NODE, 30080), (A::EXTERNAL_IP, 80)] {
            for (transport, protocol) in [
                (Transport::TcpSyn, TCP),
                (Transport::Udp, UDP),
                (Transport::UdpUnsummed, UDP),
            ] {
                let packet = Packet::new(transport, client, frontend);
                let wanted = named::<A>(number_of(protocol, client, frontend));
                assert_eq!(sent_to(&mut node, &packet), wanted, "{packet:?}");
                *seen.entry(wanted.as_ref().to_vec()).or_insert(0) += 1;
                packets += 1;
            }
        }
    }
    assert_eq!(seen.len(), BACKENDS.len(), "{seen:?}");
    let taken = match Hooks::of_this_thread() {
        Hooks::Tc => 0,
        Hooks::XdpAndTc => packets,
    };
    assert_eq!(node.taken_by_driver(), taken);
}

both_families!(a_segment_without_its_beginning_gets_the_same_one in in_network);
// As at a node that the flow has come to: the driver leaves it to TC.
fn a_segment_without_its_beginning_gets_the_same_one<A: Numbered>() {
    let mut node = node("");
    for port in 40_000..40_060 {
        let (client, frontend) = ((A::OUTSIDER, port), (A::NODE, 30080));
        let packet = Packet::new(Transport::TcpAck, client, frontend);
        let wanted = named::<A>(number_of(TCP, client, frontend));
        assert_eq!(sent_to(&mut node, &packet), wanted);
    }
    assert_eq!(node.taken_by_driver(), 0);
}

both_families!(with_affinity_the_clients_address_alone_chooses_at_either_hook in in_network);
fn with_affinity_the_clients_address_alone_chooses_at_either_hook<A: Numbered>() {
    let mut node = node(r#""session_affinity_timeout":60,"#);
    let mut seen = BTreeMap::new();
    for last in 1..40 {
        let mut bytes = A::OUTSIDER.as_ref().to_vec();
        *bytes.last_mut().unwrap() = last;
        let client = A::of(&bytes);
        let wanted = named::<A>(client_number::<A::Kernel>(client.kernel()));
        for port in 40_000..40_005 {
            let packet = Packet::new(Transport::TcpSyn, (client, port), (A::NODE, 30080));
            assert_eq!(sent_to(&mut node, &packet), wanted);
        }
        *seen.entry(wanted.as_ref().to_vec()).or_insert(0) += 1;
    }
    assert_eq!(seen.len(), BACKENDS.len(), "{seen:?}");
}
