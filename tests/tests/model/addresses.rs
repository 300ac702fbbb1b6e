//! Who is where.

use std::{net::Ipv4Addr, ops::RangeInclusive};

/// This node.
pub const NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 16, 10);
/// Another one.
pub const OTHER_NODE: Ipv4Addr = Ipv4Addr::new(192, 168, 16, 20);
/// What a pod sees when it reaches itself.
pub const HAIRPIN: Ipv4Addr = Ipv4Addr::new(169, 254, 254, 1);
/// The pods of this node.
pub const POD_CIDR: &str = "10.1.1.0/24";

/// The source ports that connections are given: the largest prime number of ports from 1024 on
/// that ends below 30000.
pub const SNAT_PORTS: RangeInclusive<u16> = 1024..=29_984;

/// Multiplies the weight of local backends.
pub const LOCAL_BACKEND_WEIGHT: u32 = 3;

/// Whether the address is in [`POD_CIDR`].
pub fn is_pod_of_this_node(ip: Ipv4Addr) -> bool {
    ip.octets()[..3] == [10, 1, 1]
}

/// Addresses that services take. Each list may have those of the others, so that services are in
/// each other's way; this node's is one that a NodePort may coincide with.
pub const SERVICE_IPS: [Ipv4Addr; 7] = [
    Ipv4Addr::new(10, 96, 0, 1),
    Ipv4Addr::new(10, 96, 0, 2),
    Ipv4Addr::new(10, 96, 0, 3),
    Ipv4Addr::new(203, 0, 113, 7),
    Ipv4Addr::new(203, 0, 113, 8),
    Ipv4Addr::new(192, 0, 2, 1),
    NODE,
];

/// Ports of services. The last is a node port, too.
pub const SERVICE_PORTS: [u16; 4] = [80, 53, 443, 30080];
/// Node ports; 0 is none.
pub const NODE_PORTS: [u16; 4] = [0, 30080, 30053, 80];

/// Where backends are: pods of this node, pods and host network of another, elsewhere.
pub const BACKEND_IPS: [Ipv4Addr; 8] = [
    Ipv4Addr::new(10, 1, 1, 3),
    Ipv4Addr::new(10, 1, 1, 4),
    Ipv4Addr::new(10, 1, 1, 5),
    Ipv4Addr::new(10, 1, 2, 3),
    Ipv4Addr::new(10, 1, 2, 4),
    OTHER_NODE,
    Ipv4Addr::new(10, 1, 1, 255),
    Ipv4Addr::new(255, 255, 0, 0),
];
/// Ports of backends; some need no change of port.
pub const BACKEND_PORTS: [u16; 3] = [8080, 80, 53];

/// Where clients are: pods of this node, some of them backends, outside, another node's pod, this
/// node itself.
pub const CLIENT_IPS: [Ipv4Addr; 8] = [
    Ipv4Addr::new(10, 1, 1, 9),
    Ipv4Addr::new(198, 51, 100, 5),
    Ipv4Addr::new(10, 1, 1, 3),
    Ipv4Addr::new(10, 1, 1, 4),
    Ipv4Addr::new(10, 1, 0, 255),
    Ipv4Addr::new(198, 51, 100, 6),
    Ipv4Addr::new(10, 1, 2, 3),
    NODE,
];
/// Ports of clients; one is a backend's.
pub const CLIENT_PORTS: [u16; 5] = [40000, 40001, 1, 65535, 8080];
