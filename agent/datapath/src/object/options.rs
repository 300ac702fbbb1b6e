//! The options that are fixed while the programs are loaded.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, Ipv6Addr},
    num::NonZeroU8,
    path::PathBuf,
};

use ipnet::IpNet;
use shunt_common::PortRange;
use shunt_model::InterfacePattern;

use crate::{
    maps::{
        families::Families,
        table_sizes::{TableSizes, Uses},
    },
    object::{
        guard::GuardOptions, pods::PodDetection, reject_limit::RejectLimit, sockets::SocketOptions,
        timeouts::Timeouts, xdp::XdpOptions,
    },
};

/// Level of the programs' log of packets, through aya-log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum PacketLog {
    /// Nothing; the verifier removes the code.
    #[default]
    Off,
    /// Each connection that is opened and each packet that is dropped.
    Debug,
}

/// Options that are fixed while the programs are loaded.
#[derive(Debug, Clone)]
pub struct DatapathOptions {
    /// The interfaces that never have the programs, even by name.
    pub excluded_interfaces: BTreeSet<InterfacePattern>,
    /// Ranges from which this node's pods take their addresses.
    pub pod_cidrs: Vec<IpNet>,
    /// Other ways to recognise them.
    pub pods: PodDetection,
    /// True if connections to `ClusterIP`s go on from this node's address for every client, and not
    /// only if their replies would not come back otherwise.
    pub masquerade_all: bool,
    /// The IPv4 address that a pod sees when it reaches itself through its service. Nothing else
    /// may have it.
    pub hairpin_v4: Ipv4Addr,
    /// The same for IPv6.
    pub hairpin_v6: Ipv6Addr,
    /// The IPv4 address that connections from outside to backends on other nodes go on from;
    /// `None`: the lowest of the node's own.
    pub snat_v4: Option<Ipv4Addr>,
    /// The same for IPv6.
    pub snat_v6: Option<Ipv6Addr>,
    /// The source ports that they, and others whose own port is taken, are given.
    pub snat_ports: PortRange,
    /// Level of the programs' log.
    pub packet_log: PacketLog,
    /// True if packets to pods of this node go there in one hop, past the stack.
    pub redirect: bool,
    /// Options for forwarding packets in transit past TC.
    pub xdp: XdpOptions,
    /// Options for translation at the socket.
    pub sockets: SocketOptions,
    /// Options for packets to services' addresses that are for none of their frontends.
    pub guard: GuardOptions,
    /// Limit on the ICMP errors that reject packets.
    pub rejects: RejectLimit,
    /// The percentage of the connections, and of the rejections, that one client may have while there are too few
    /// places for all; `None`: any.
    pub client_share: Option<NonZeroU8>,
    /// True if packets and bytes are counted for each service port; connections and refusals always are.
    pub count_traffic: bool,
    /// True if backends behind frontends in mode dsr announce how much fits into an envelope.
    pub lower_mss: bool,
    /// Ranges from which envelopes may come besides the nodes' own addresses; ours come from the first range of their
    /// family, if there is one.
    pub dsr_sources: Vec<IpNet>,
    /// Times for which connections are remembered.
    pub timeouts: Timeouts,
    /// The families that are translated.
    pub families: Families,
    /// Table sizes. Tables that are pinned already become larger, but not smaller, but for those of
    /// connections.
    pub sizes: TableSizes,
    /// Directory in which tables, programs and links are pinned, so that they outlive the agent.
    pub pin_dir: Option<PathBuf>,
}

impl Default for DatapathOptions {
    fn default() -> Self {
        Self {
            excluded_interfaces: BTreeSet::new(),
            pod_cidrs: Vec::new(),
            pods: PodDetection::default(),
            masquerade_all: false,
            // Link-local (RFC 3927), so never routed.
            hairpin_v4: Ipv4Addr::new(169, 254, 254, 1),
            // A link-local address would not do: its scope is an interface, which a pod's kernel
            // would have to know to answer it. This is a unique local one (RFC 4193), of a prefix
            // whose 40 random bits were drawn for this purpose, so that no network has it.
            hairpin_v6: Ipv6Addr::new(0xfd9a, 0x7452, 0x4a6d, 0, 0, 0, 0, 1),
            snat_v4: None,
            snat_v6: None,
            // Below the NodePorts of Kubernetes, from 30000, and the ephemeral ports of Linux, 32768
            // to 60999. 28,961 of these are used: more than a client has ephemeral ports, so that
            // each of them gets a port that no other of that client's begins with.
            snat_ports: const { PortRange::within(1024, 29_999).unwrap() },
            packet_log: PacketLog::Off,
            redirect: false,
            xdp: XdpOptions::default(),
            sockets: SocketOptions::default(),
            guard: GuardOptions::default(),
            rejects: RejectLimit::default(),
            client_share: None,
            count_traffic: false,
            lower_mss: true,
            dsr_sources: Vec::new(),
            timeouts: Timeouts::default(),
            families: Families::default(),
            sizes: TableSizes::default(),
            pin_dir: None,
        }
    }
}

impl DatapathOptions {
    /// Returns the uses of tables that are not always wanted.
    pub(crate) const fn uses(&self) -> Uses {
        Uses {
            redirect: self.redirect,
            xdp: self.xdp.is_on(),
            traffic: self.count_traffic,
        }
    }
}
