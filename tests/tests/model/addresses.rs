//! The addresses of all parties, in both families.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
    ops::RangeInclusive,
};

use super::nodes::Nodes;

/// A host with one address of each family.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub v4: Ipv4Addr,
    pub v6: Ipv6Addr,
}

impl Pair {
    /// Its address of the family of `other`.
    pub(crate) const fn like(self, other: IpAddr) -> IpAddr {
        match other {
            IpAddr::V4(_) => IpAddr::V4(self.v4),
            IpAddr::V6(_) => IpAddr::V6(self.v6),
        }
    }

    /// Both addresses.
    pub(crate) const fn both(self) -> [IpAddr; 2] {
        [IpAddr::V4(self.v4), IpAddr::V6(self.v6)]
    }

    /// Returns whether the address is one of the two.
    pub(crate) fn has(self, ip: IpAddr) -> bool {
        self.both().contains(&ip)
    }
}

/// This node.
pub(crate) const NODE: Pair = Pair {
    v4: Ipv4Addr::new(192, 168, 16, 10),
    v6: Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0x10),
};
/// Another one.
pub(crate) const OTHER_NODE: Pair = Pair {
    v4: Ipv4Addr::new(192, 168, 16, 20),
    v6: Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0x20),
};
/// A third one, at which no NodePort stands, and whose neighbour entry is still to come.
pub(crate) const THIRD_NODE: Pair = Pair {
    v4: Ipv4Addr::new(192, 168, 16, 30),
    v6: Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0x30),
};
/// Another address of [`OTHER_NODE`].
pub(crate) const OTHER_NODE_TOO: Pair = Pair {
    v4: Ipv4Addr::new(192, 0, 2, 20),
    v6: Ipv6Addr::new(0x2001, 0xdb8, 0x16, 0, 0, 0, 0, 0x20),
};

/// The names of nodes; no event has the last one's addresses.
pub(crate) const NODE_NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The addresses that the nodes of these names may have, one list or another.
pub(crate) fn node_addresses() -> [Vec<Vec<IpAddr>>; 3] {
    let both = |pair: Pair| pair.both().to_vec();
    let one = |pair: Pair| vec![IpAddr::V4(pair.v4)];
    [
        vec![both(NODE), one(NODE)],
        vec![
            both(OTHER_NODE),
            one(OTHER_NODE),
            [OTHER_NODE_TOO.both(), OTHER_NODE.both()].concat(),
        ],
        vec![both(THIRD_NODE), one(THIRD_NODE)],
    ]
}

/// All nodes, with all their addresses.
pub(crate) fn all_nodes() -> Nodes {
    let lists = node_addresses().map(|mut lists| lists.swap_remove(0));
    NODE_NAMES.into_iter().zip(lists).collect()
}

/// Addresses that a pod sees when it reaches itself.
pub(crate) const HAIRPIN: Pair = Pair {
    v4: Ipv4Addr::new(169, 254, 254, 1),
    v6: Ipv6Addr::new(0xfd9a, 0x7452, 0x4a6d, 0, 0, 0, 0, 1),
};
/// The pods of this node.
pub(crate) const POD_CIDRS: [&str; 2] = ["10.1.1.0/24", "fd00:1:1::/64"];

/// Ranges of envelopes' sources besides nodes, if there are such: this node's come from the first one of their family.
pub(crate) const DSR_SOURCES: [&str; 4] = [
    "172.16.0.0/12",
    "fd00:5::/64",
    "100.64.0.0/10",
    "fd00:6::/112",
];

/// Returns whether the address is in one of [`DSR_SOURCES`].
pub(crate) fn is_dsr_source(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let [first, second, ..] = ip.octets();
            first == 172 && second >> 4 == 1 || first == 100 && second >> 6 == 1
        }
        IpAddr::V6(ip) => {
            let segments = ip.segments();
            segments[..4] == [0xfd00, 5, 0, 0] || segments[..7] == [0xfd00, 6, 0, 0, 0, 0, 0]
        }
    }
}

/// Returns the source of this node's envelopes for a flow with this number, of the family of `other`. The
/// number's bytes stand there from the least on, as far as the range leaves room.
pub(crate) fn dsr_source(number: u32, other: IpAddr) -> IpAddr {
    let [a, b, c, d] = number.to_le_bytes();
    match other {
        // The first byte is the range's, and half of the second.
        IpAddr::V4(_) => [172, 0x10 | b & 0xf, c, d].into(),
        IpAddr::V6(_) => {
            let mut octets = [0; 16];
            octets[..4].copy_from_slice(&[0xfd, 0, 0, 5]);
            octets[12..].copy_from_slice(&[a, b, c, d]);
            octets.into()
        }
    }
}

/// The source ports that connections are given: the largest prime number of ports from 1024 on
/// that ends below 30000.
pub(crate) const SNAT_PORTS: RangeInclusive<u16> = 1024..=29_984;

/// Multiplies the weight of local backends.
pub(crate) const LOCAL_BACKEND_WEIGHT: u32 = 3;

/// Returns whether the address is in one of [`POD_CIDRS`].
pub(crate) fn is_pod_of_this_node(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => ip.octets()[..3] == [10, 1, 1],
        IpAddr::V6(ip) => ip.segments()[..4] == [0xfd00, 1, 1, 0],
    }
}

/// Returns whether the kernel's routes lead to the address, as any other would: not to this node's own,
/// those of loopback interfaces, and groups and broadcasts of its link.
pub(crate) fn is_routed(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => {
            let own = [NODE.v4, Ipv4Addr::new(192, 168, 16, 255)];
            !ip.is_loopback() && !own.contains(&ip)
        }
        IpAddr::V6(ip) => {
            // The address of the link itself is this router's (RFC 4291 section 2.6.1).
            let own = [NODE.v6, Ipv6Addr::new(0xfd00, 0x16, 0, 0, 0, 0, 0, 0)];
            // Link-local ones are looked for on the link that the frame came by, the loopback.
            let is_anywhere = !ip.is_loopback() && !ip.is_multicast();
            is_anywhere && !ip.is_unicast_link_local() && !own.contains(&ip)
        }
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
}

const fn v6(network: [u16; 4], host: u16) -> IpAddr {
    let [a, b, c, d] = network;
    IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, host))
}

const SERVICES: [u16; 4] = [0xfd00, 0x96, 0, 0];
const OUTSIDE: [u16; 4] = [0x2001, 0xdb8, 0x113, 0];
const CLIENTS: [u16; 4] = [0x2001, 0xdb8, 0x51, 0];
const PODS: [u16; 4] = [0xfd00, 1, 1, 0];
const OTHER_PODS: [u16; 4] = [0xfd00, 1, 2, 0];

/// Addresses that services take. Each list may have those of the others, so that services are in
/// each other's way; the nodes' are some that a NodePort or a backend may coincide with.
pub(crate) const SERVICE_IPS: [IpAddr; 16] = [
    v4(10, 96, 0, 1),
    v4(10, 96, 0, 2),
    v4(10, 96, 0, 3),
    v4(203, 0, 113, 7),
    v4(203, 0, 113, 8),
    v4(192, 0, 2, 1),
    IpAddr::V4(NODE.v4),
    IpAddr::V4(OTHER_NODE.v4),
    v6(SERVICES, 1),
    v6(SERVICES, 2),
    v6(SERVICES, 3),
    v6(OUTSIDE, 7),
    v6(OUTSIDE, 8),
    v6([0x3fff, 0xffff, 0, 0xffff], 0xffff),
    IpAddr::V6(NODE.v6),
    IpAddr::V6(OTHER_NODE.v6),
];

/// Ports of services. The last is a node port, too.
pub(crate) const SERVICE_PORTS: [u16; 4] = [80, 53, 443, 30080];
/// Node ports; 0 is none.
pub(crate) const NODE_PORTS: [u16; 4] = [0, 30080, 30053, 80];

/// Addresses of backends: pods of this node, pods and host network of another, elsewhere.
pub(crate) const BACKEND_IPS: [IpAddr; 16] = [
    v4(10, 1, 1, 3),
    v4(10, 1, 1, 4),
    v4(10, 1, 1, 5),
    v4(10, 1, 2, 3),
    v4(10, 1, 2, 4),
    IpAddr::V4(OTHER_NODE.v4),
    v4(10, 1, 1, 255),
    v4(255, 255, 0, 0),
    v6(PODS, 3),
    v6(PODS, 4),
    v6(PODS, 5),
    v6(OTHER_PODS, 3),
    v6(OTHER_PODS, 4),
    IpAddr::V6(OTHER_NODE.v6),
    v6(PODS, 0xffff),
    v6([0xfdff, 0xffff, 0xffff, 0], 0),
];
/// Ports of backends; some need no change of port.
pub(crate) const BACKEND_PORTS: [u16; 3] = [8080, 80, 53];

/// Addresses of clients: pods of this node, some of them backends, outside, another node's pod, this node itself.
pub(crate) const CLIENT_IPS: [IpAddr; 16] = [
    v4(10, 1, 1, 9),
    v4(198, 51, 100, 5),
    v4(10, 1, 1, 3),
    v4(10, 1, 1, 4),
    v4(10, 1, 0, 255),
    v4(198, 51, 100, 6),
    v4(10, 1, 2, 3),
    IpAddr::V4(NODE.v4),
    v6(PODS, 9),
    v6(CLIENTS, 5),
    v6(PODS, 3),
    v6(PODS, 4),
    v6([0xfd00, 1, 0, 0xffff], 0xff),
    v6(CLIENTS, 6),
    v6(OTHER_PODS, 3),
    IpAddr::V6(NODE.v6),
];
/// Ports of clients; one is a backend's.
pub(crate) const CLIENT_PORTS: [u16; 5] = [40000, 40001, 1, 65535, 8080];

/// Sources that no host should have: unspecified, loopback, groups, broadcasts, of a future use.
pub(crate) const ODD_IPS: [IpAddr; 10] = [
    v4(0, 0, 0, 0),
    v4(127, 0, 0, 1),
    v4(224, 0, 0, 1),
    v4(255, 255, 255, 255),
    v4(240, 0, 0, 1),
    v6([0; 4], 0),
    v6([0; 4], 1),
    v6([0xff02, 0, 0, 0], 1),
    v6([0xfe80, 0, 0, 0], 0x99),
    v6([0x100, 0, 0, 0], 1),
];
