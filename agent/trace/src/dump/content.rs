//! Content of a dump beside tables: the node, its network, and the names of what is in the tables.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// The form of dumps. It changes with every change after which a dump would be misread.
pub const VERSION: u32 = 1;

/// The node, and when the dump was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Node {
    /// The agent's version.
    pub shunt: String,
    /// Seconds since 1970.
    pub taken: u64,
    /// The kernel's ticks then (`bpf_jiffies64`), by which connections are dated.
    pub ticks: u64,
    /// Nanoseconds of the kernel's monotonic clock then.
    pub nanoseconds: u64,
    /// Byte order of numbers in tables: `little` or `big`.
    pub byte_order: String,
    /// True if addresses and names are others than the node's.
    pub anonymous: bool,
    /// Translation at the socket.
    pub sockets: Sockets,
}

/// Translation at the socket.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sockets {
    /// Sockets that are translated: `off`, `host` or `all`.
    pub mode: String,
    /// The hooks that have programs.
    pub hooks: Vec<String>,
}

/// A network interface.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interface {
    /// The kernel's index of it.
    pub index: u32,
    /// Its name.
    pub name: String,
    /// Bytes of the longest packet, without the link's header.
    pub mtu: u32,
    /// True if its packets have an Ethernet header.
    pub is_ethernet: bool,
    /// True if it is up.
    pub is_up: bool,
    /// Its link address, as `aa:bb:cc:dd:ee:ff`; none if it has none of six bytes.
    pub link_address: Option<LinkAddress>,
    /// Its addresses, each with the length of its prefix.
    pub addresses: Vec<IpNet>,
    /// True if IPv4 packets that come in there are forwarded.
    pub forwards_v4: bool,
    /// True if IPv6 packets are.
    pub forwards_v6: bool,
}

/// The address of an Ethernet interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct LinkAddress(pub [u8; 6]);

impl From<LinkAddress> for String {
    fn from(LinkAddress(bytes): LinkAddress) -> Self {
        bytes.map(|byte| format!("{byte:02x}")).join(":")
    }
}

impl TryFrom<String> for LinkAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let bad = || format!("{text:?} is no link address");
        let bytes = text
            .split(':')
            .map(|part| u8::from_str_radix(part, 16).ok());
        let bytes = bytes.collect::<Option<Vec<_>>>().ok_or_else(bad)?;
        bytes.try_into().map(Self).map_err(|_| bad())
    }
}

/// A route of one of the kernel's tables.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Route {
    /// The number of the table.
    pub table: u32,
    /// Destination of the packets.
    pub destination: IpNet,
    /// Outcome of packets there.
    pub kind: RouteKind,
    /// Order among several routes to one destination: the least metric holds.
    pub metric: u32,
    /// The service that packets have to have; 0: any.
    pub tos: u8,
    /// From where packets have to come; none: from anywhere.
    pub source: Option<IpNet>,
    /// The longest packet that is forwarded, if the route limits it.
    pub mtu: Option<u32>,
    /// The ways, of which each packet takes one.
    pub hops: Vec<Hop>,
    /// True if packets are put into another packet on this way, by the kernel.
    pub has_encapsulation: bool,
}

/// Outcome of packets by a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RouteKind {
    /// They are sent on.
    Unicast,
    /// They are for this node.
    Local,
    /// They are for all in a network.
    Broadcast,
    /// They are for many.
    Multicast,
    /// They are for the nearest of several.
    Anycast,
    /// They are dropped.
    Blackhole,
    /// Their sender gets an error: there is no way.
    Unreachable,
    /// Their sender gets an error: it may not go there.
    Prohibit,
    /// The next rule decides.
    Throw,
    /// Something else.
    Other,
}

/// One of a route's ways.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hop {
    /// The interface's index.
    pub interface: u32,
    /// The next router; none if the destination is on the link.
    pub gateway: Option<IpAddr>,
    /// Its share of packets, of several ways.
    pub weight: u32,
    /// True if it is not in use: its interface is down.
    pub is_dead: bool,
}

/// A rule that selects the table by which a packet is routed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// True if it is about IPv6.
    pub is_v6: bool,
    /// Order of the rule: the rule with the least priority comes first.
    pub priority: u32,
    /// Range that packets have to come from.
    pub source: Option<IpNet>,
    /// Range that packets have to go to.
    pub destination: Option<IpNet>,
    /// By which interface they have to come in.
    pub interface: Option<String>,
    /// The mark that they have to have, of the bits of `mask`.
    pub mark: u32,
    /// Bits of the mark that count; 0: none does.
    pub mask: u32,
    /// Routes with a shorter prefix than this, or this one, are as if they were not there.
    pub suppressed: Option<u32>,
    /// True if it is about all packets that are not so.
    pub is_inverted: bool,
    /// True if it asks something else than the above: then it is taken to be about none here.
    pub has_more: bool,
    /// Its action.
    pub action: RuleAction,
}

impl Rule {
    /// A rule for all packets of a family.
    pub const fn of_all(is_v6: bool, priority: u32, action: RuleAction) -> Self {
        Self {
            is_v6,
            priority,
            source: None,
            destination: None,
            interface: None,
            mark: 0,
            mask: 0,
            suppressed: None,
            is_inverted: false,
            has_more: false,
            action,
        }
    }
}

/// Action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// The table with this number is asked.
    Table(u32),
    /// Packets are dropped.
    Blackhole,
    /// Their sender gets an error: there is no way.
    Unreachable,
    /// Their sender gets an error: it may not go there.
    Prohibit,
    /// Something else, or nothing.
    Other,
}

/// A neighbour on a link.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Neighbour {
    /// The interface's index.
    pub interface: u32,
    /// Its address.
    pub address: IpAddr,
    /// Its link address, if it is known.
    pub link_address: Option<LinkAddress>,
    /// True if the kernel takes that to be so (`NUD_VALID`).
    pub is_valid: bool,
}

/// The events' data of a frontend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Frontend {
    /// Its address.
    pub address: IpAddr,
    /// Its port.
    pub port: u16,
    /// The IANA number of its protocol.
    pub protocol: u8,
    /// `ClusterIP`, `NodePort`, `ExternalIP` or `LoadBalancerIP`.
    pub kind: String,
    /// `namespace/name`.
    pub service: String,
    /// The name of the service's port.
    pub service_port: String,
    /// `Cluster` or `Local`.
    pub policy: String,
    /// `snat` or `dsr`.
    pub forwarding: String,
    /// `weighted` or `maglev`.
    pub selection: String,
    /// Among which services its connections are shared out; none if they are not.
    pub split: Vec<Share>,
}

/// Share of a service in another one's connections.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// The service, as `namespace/name`, and its port.
    pub service: Option<(String, u16)>,
    /// Or an address and its port.
    pub address: Option<SocketAddr>,
    /// Its share is weight / sum of weights.
    pub weight: u32,
}
