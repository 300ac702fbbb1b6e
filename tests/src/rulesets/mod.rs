//! The rulesets that kube-proxy 1.33 writes, in nftables mode and in iptables mode: text out of
//! services, without touching a kernel.
//!
//! They have what decides about speed: the same chains, maps and rules in the same order, one
//! command a line as kube-proxy sends them. Only the hashes in the chains' names are others, of the
//! same length. IPv4 alone; no session affinity, no source ranges, policy Cluster.

use std::{
    fmt,
    net::{Ipv4Addr, SocketAddrV4},
};

use crate::Transport;

pub mod iptables;
pub mod nftables;

/// Properties of the node that the rules are for.
#[derive(Debug, Clone)]
pub struct Node {
    /// The address at which it takes NodePort traffic.
    pub address: Ipv4Addr,
    /// The cluster's pods, whose traffic to a ClusterIP keeps its source, as `10.1.0.0/16`.
    pub pod_cidr: String,
    /// Range of the ClusterIPs.
    pub service_cidr: String,
}

/// A service with one port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Service {
    /// Unique among the services of one protocol.
    pub name: String,
    /// The port's protocol.
    pub protocol: Transport,
    /// The address inside the cluster.
    pub cluster_ip: Ipv4Addr,
    /// The port there.
    pub port: u16,
    /// The port on the nodes' addresses, if there is one.
    pub node_port: Option<u16>,
    /// At least one: services without endpoints are not written.
    pub endpoints: Vec<SocketAddrV4>,
}

impl Service {
    /// The protocol as both tools spell it.
    const fn protocol(&self) -> &'static str {
        match self.protocol {
            Transport::Tcp => "tcp",
            Transport::Udp => "udp",
        }
    }

    /// The name of its port, which kube-proxy's comments have.
    fn port_name(&self) -> PortName<'_> {
        PortName(self)
    }
}

/// `default/name:pPORT`.
struct PortName<'a>(&'a Service);

impl fmt::Display for PortName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Service { name, port, .. } = self.0;
        write!(f, "default/{name}:p{port}")
    }
}

/// `length` letters of base 32 (RFC 4648), at most 16, which are the same for the same text.
fn hash(text: &str, length: usize) -> String {
    const LETTERS: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    // FNV-1a of 128 bits, whose upper half is its better one.
    let hash = text.bytes().fold(
        0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
        |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b),
    );
    let folded = hash ^ (hash >> 61);
    (0..length)
        .map(|digit| char::from(LETTERS[(folded >> (5 * digit)) as usize % LETTERS.len()]))
        .collect()
}
