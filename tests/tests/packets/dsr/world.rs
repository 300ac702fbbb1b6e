//! Two nodes of a cluster whose service is in mode dsr, and the envelopes between them.

use std::net::IpAddr;

use etherparse::{IpNumber, Ipv4Header};

use crate::{
    frame::framed,
    needs_root,
    node::Node,
    world::{Backends, Family, V4, V6, cluster, in_network},
};

/// The other node, which has the backends that are not here.
pub(crate) const OTHER_V4: V4 = [192, 168, 16, 20];
pub(crate) const OTHER_V6: V6 = [0x20, 1, 0xd, 0xb8, 0, 0x16, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x20];

/// The cluster with its service in mode dsr, as in the events of a node that knows the nodes.
pub(crate) fn dsr(backends: Backends) -> String {
    let nodes = r#""nodes":{"a":["192.168.16.10","2001:db8:16::10"],"b":["192.168.16.20","2001:db8:16::20"]}"#;
    cluster(backends)
        .replacen(
            r#""frontend_ifs""#,
            &format!(r#"{nodes},"frontend_ifs""#),
            1,
        )
        .replacen(r#""ports""#, r#""forwarding":"dsr","ports""#, 1)
        .replace(r#""local":false"#, r#""local":false,"node":"b""#)
}

/// A node with these events.
pub(crate) fn node(backends: Backends) -> Node {
    Node::new([dsr(backends).as_str()])
}

/// The packet in an envelope from a first node to another one.
pub(crate) fn envelope<A: Family>(from: A, to: A, packet: &[u8]) -> Vec<u8>
where
    IpAddr: From<A>,
{
    enclosed(from, to, packet, 64)
}

/// The packet in an envelope in which a backend's node hands it on to another one.
pub(crate) fn handed_on<A: Family>(from: A, to: A, packet: &[u8]) -> Vec<u8>
where
    IpAddr: From<A>,
{
    enclosed(from, to, packet, 255)
}

fn enclosed<A: Family>(from: A, to: A, packet: &[u8], hops: u8) -> Vec<u8>
where
    IpAddr: From<A>,
{
    let mut bytes = match (IpAddr::from(from), IpAddr::from(to)) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = packet.len().try_into().unwrap();
            let number = IpNumber::IPV4;
            let mut header =
                Ipv4Header::new(length, hops, number, from.octets(), to.octets()).unwrap();
            header.dont_fragment = true;
            header.header_checksum = header.calc_header_checksum();
            header.to_bytes().to_vec()
        }
        (from, to) => {
            let [IpAddr::V6(from), IpAddr::V6(to)] = [from, to] else {
                panic!("two families");
            };
            let mut header = packet[..4].to_vec();
            header.extend(u16::try_from(packet.len()).unwrap().to_be_bytes());
            header.extend([41, hops]);
            header.extend(from.octets());
            header.extend(to.octets());
            header
        }
    };
    bytes.extend(packet);
    framed::<A>(&bytes)
}

/// Returns the value of this counter.
pub(crate) fn counted(node: &Node, counter: &str) -> u64 {
    node.counters().get(counter).copied().unwrap_or_default()
}

/// Runs a test as root, on both hooks.
pub(crate) fn in_both(test: impl Fn() + Send + Sync) {
    needs_root!();
    in_network(test);
}
