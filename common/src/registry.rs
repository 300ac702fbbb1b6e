//! Every map and every constant of the kernel programs, by name: what becomes of it when another
//! agent takes over, and which setting sizes it.
//!
//! The agent spells none of these names elsewhere; a test of its holds the object against this
//! list, both ways.

pub mod handover;
#[cfg(test)]
mod tests;

/// The fate of a map when another agent takes over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It is pinned, and adopted by the next agent: what is in it cannot be found out again before
    /// the first Resync, or never. Its layout is counted: see [`STATE_LAYOUT`].
    State,
    /// Not pinned; the agent writes it again at start.
    Setting,
    /// Not pinned; it begins empty. Its layout concerns the programs alone.
    Scratch,
}

/// The setting of the agent for the number of entries of a map.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Size {
    /// Frontends, and their cells.
    Frontends,
    /// Slots of all frontends.
    Slots,
    /// Backends of all services.
    Backends,
    /// Halves of connections, two each.
    Conntrack,
    /// Clients with session affinity.
    Affinity,
    /// Source ranges of all frontends.
    SourceRanges,
    /// Fragmented packets.
    Fragments,
    /// Service ports.
    Services,
    /// Service ports, but the map is of use only while their packets are counted.
    Traffic,
    /// None, but the map is of use only while packets are redirected.
    Redirect,
    /// None, but the map is of use only while there is an XDP program.
    Xdp,
    /// None: the programs set it themselves.
    Fixed,
}

/// A map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Map {
    /// Its name in the object.
    pub name: &'static str,
    /// As it is pinned. A table whose layout a later version has changed ends in that version, so that
    /// the table before and the one after stand beside each other while one hands over to the other.
    pub pin: &'static str,
    /// As it is called where its use is shown.
    pub shown: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// The setting for its size.
    pub size: Size,
}

/// A constant in the object's `.rodata`, which the agent sets before it loads the programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Constant {
    /// Its name in the object.
    pub name: &'static str,
}

/// The version of the layouts of the maps of kind [`Kind::State`].
///
/// It changes with every change of a key, of a value, or of what one of them means. The agent refuses
/// tables of another version.
pub const STATE_LAYOUT: u64 = 4;

/// The maps of one address family.
#[derive(Debug, Clone, Copy)]
pub struct FamilyMaps {
    /// Frontend to index.
    pub frontends: Map,
    /// Cells by frontend index.
    pub cells: Map,
    /// Slots.
    pub slots: Map,
    /// Backends by index.
    pub backends: Map,
    /// Number of connections that the backends were chosen for, by the same index. State: counts go on.
    pub backend_connections: Map,
    /// The clients that may use a frontend.
    pub source_ranges: Map,
    /// The last backend of a client.
    pub affinity: Map,
    /// Outcomes of first fragments.
    pub fragments: Map,
    /// This node's addresses. State: before the first Resync there is no other copy.
    pub node: Map,
    /// Connections.
    pub conntrack: Map,
    /// A CPU's scratch space while it opens a connection.
    pub openings: Map,
    /// A CPU's notes on the packet that it is at.
    pub arrivals: Map,
    /// The ways to pods of this node.
    pub hops: Map,
    /// The ways of packets that drivers send on.
    pub ways: Map,
    /// The places where packets came in of late, by the way that replies to them take.
    pub origins: Map,
    /// The packets that go through the stack half translated.
    pub halfway: Map,
    /// Addresses that may have frontends, or may be guarded: a filter.
    pub addresses: Map,
    /// The addresses that are guarded.
    pub guarded: Map,
    /// The ranges of ClusterIPs.
    pub service_cidrs: Map,
    /// Frontend index to the number of the service port. State: until the first Resync, connections
    /// begin that belong to one.
    pub frontend_services: Map,
    /// The nodes of addresses, by the address. State: until the first Resync, packets go there.
    pub locations: Map,
    /// The ways to addresses elsewhere, by prefix: [`crate::Path`].
    pub paths: Map,
}

/// The treatment of an address family's packets.
#[repr(u32)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packets {
    /// They pass untouched: the family is left out, and has no connection.
    Pass = 0,
    /// They are translated.
    Translated = 1,
    /// They are translated, and the general path has to do it while another table hands over.
    HandedOver = 2,
}

/// The constants of one address family.
#[derive(Debug, Clone, Copy)]
pub struct FamilyConstants {
    /// The treatment of its packets: one of [`Packets`].
    pub packets: Constant,
    /// The ranges of this node's pods.
    pub pod_cidrs: Constant,
    /// The ranges of the cluster's pods.
    pub cluster_cidrs: Constant,
    /// The ranges that envelopes may come from besides the nodes' own addresses; from the first they do.
    pub dsr_sources: Constant,
    /// The address that a pod sees when it reaches itself.
    pub hairpin_ip: Constant,
    /// Nonzero if NodePorts are at the host's loopback addresses, for its own processes.
    pub local_node_ports: Constant,
    /// Number of homes of the connection table.
    pub conntrack_homes: Constant,
    /// Number of homes of the table that hands over to it.
    pub previous_homes: Constant,
}

/// The maps of the family with these endings.
macro_rules! family_maps {
    ($ending:literal, $shown:literal: $($field:ident $name:literal $(with $version:literal)? $shown_name:literal $kind:ident $size:ident,)*) => {
        FamilyMaps {
            $($field: Map {
                name: concat!($name, $ending),
                pin: concat!($name, $ending $(, $version)?),
                shown: concat!($shown_name, $shown),
                kind: Kind::$kind,
                size: Size::$size,
            },)*
        }
    };
    ($ending:literal, $shown:literal) => {
        family_maps! { $ending, $shown:
            frontends "FRONTENDS" "frontends" State Frontends,
            cells "CELLS" "cells" State Frontends,
            slots "SLOTS" "slots" State Slots,
            backends "BACKENDS" "backends" State Backends,
            backend_connections "BACKEND_CONNECTIONS" "backend_connections" State Backends,
            source_ranges "SOURCE_RANGES" "source_ranges" State SourceRanges,
            affinity "AFFINITY" with "-4" "affinity" State Affinity,
            fragments "FRAGMENTS" with "-4" "fragments" State Fragments,
            node "NODE" "node" State Fixed,
            conntrack "CONNTRACK" with "-4" "conntrack" State Conntrack,
            openings "OPENINGS" "openings" Scratch Fixed,
            arrivals "ARRIVALS" "arrivals" Scratch Fixed,
            hops "HOPS" "hops" Scratch Redirect,
            ways "WAYS" "ways" Scratch Xdp,
            origins "ORIGINS" "origins" Scratch Fixed,
            halfway "HALFWAY" "halfway" Scratch Fixed,
            addresses "ADDRESSES" "addresses" Setting Fixed,
            guarded "GUARDED" "guarded" Setting Frontends,
            service_cidrs "SERVICE_CIDRS" "service_cidrs" Setting Fixed,
            frontend_services "FRONTEND_SERVICES" "frontend_services" State Frontends,
            locations "LOCATIONS" "locations" State Frontends,
            paths "PATHS" "paths" Setting Fixed,
        }
    };
}

impl FamilyMaps {
    /// The maps of IPv4.
    pub const V4: Self = family_maps!("_V4", "_v4");
    /// The maps of IPv6.
    pub const V6: Self = family_maps!("_V6", "_v6");

    /// Each of them.
    #[must_use]
    pub const fn all(&self) -> [Map; 22] {
        let Self {
            frontends,
            cells,
            slots,
            backends,
            backend_connections,
            source_ranges,
            affinity,
            fragments,
            node,
            conntrack,
            openings,
            arrivals,
            hops,
            ways,
            origins,
            halfway,
            addresses,
            guarded,
            service_cidrs,
            frontend_services,
            locations,
            paths,
        } = *self;
        [
            frontends,
            cells,
            slots,
            backends,
            backend_connections,
            source_ranges,
            affinity,
            fragments,
            node,
            conntrack,
            openings,
            arrivals,
            hops,
            ways,
            origins,
            halfway,
            addresses,
            guarded,
            service_cidrs,
            frontend_services,
            locations,
            paths,
        ]
    }
}

impl FamilyConstants {
    /// Each of them.
    #[must_use]
    pub const fn all(&self) -> [Constant; 8] {
        let Self {
            packets,
            pod_cidrs,
            cluster_cidrs,
            dsr_sources,
            hairpin_ip,
            local_node_ports,
            conntrack_homes,
            previous_homes,
        } = *self;
        [
            packets,
            pod_cidrs,
            cluster_cidrs,
            dsr_sources,
            hairpin_ip,
            local_node_ports,
            conntrack_homes,
            previous_homes,
        ]
    }

    /// The constants of IPv4.
    pub const V4: Self = Self {
        packets: Constant { name: "PACKETS_V4" },
        pod_cidrs: Constant {
            name: "POD_CIDRS_V4",
        },
        cluster_cidrs: Constant {
            name: "CLUSTER_CIDRS_V4",
        },
        dsr_sources: Constant {
            name: "DSR_SOURCES_V4",
        },
        hairpin_ip: Constant {
            name: "HAIRPIN_IP_V4",
        },
        local_node_ports: Constant {
            name: "LOCAL_NODE_PORTS_V4",
        },
        conntrack_homes: Constant {
            name: "CONNTRACK_HOMES_V4",
        },
        previous_homes: Constant {
            name: "PREVIOUS_HOMES_V4",
        },
    };
    /// The constants of IPv6.
    pub const V6: Self = Self {
        packets: Constant { name: "PACKETS_V6" },
        pod_cidrs: Constant {
            name: "POD_CIDRS_V6",
        },
        cluster_cidrs: Constant {
            name: "CLUSTER_CIDRS_V6",
        },
        dsr_sources: Constant {
            name: "DSR_SOURCES_V6",
        },
        hairpin_ip: Constant {
            name: "HAIRPIN_IP_V6",
        },
        local_node_ports: Constant {
            name: "LOCAL_NODE_PORTS_V6",
        },
        conntrack_homes: Constant {
            name: "CONNTRACK_HOMES_V6",
        },
        previous_homes: Constant {
            name: "PREVIOUS_HOMES_V6",
        },
    };
}

/// A map of both families.
const fn both(name: &'static str, shown: &'static str, kind: Kind, size: Size) -> Map {
    Map {
        name,
        pin: name,
        shown,
        kind,
        size,
    }
}

/// The random words by which connections find their places. State: a later agent has to look for them where they are.
pub const SEEDS: Map = both("SEEDS", "seeds", Kind::State, Size::Fixed);
/// Source ports that connections have ever been given, since the tables are pinned. State: they may be open, whatever
/// the range is now.
pub const GIVEN_PORTS: Map = both("GIVEN_PORTS", "given_ports", Kind::State, Size::Fixed);
/// Nonzero if a connection to a backend itself has ever been given another source port. State: it may be open.
pub const DIRECT: Map = both("DIRECT", "direct", Kind::State, Size::Fixed);
/// Times at which clients have last reached UDP backends through a service. State: their connections may be open.
pub const REACHED: Map = both("REACHED", "reached", Kind::State, Size::Fixed);
/// Backends that have no source port left.
pub const EXHAUSTIONS: Map = both("EXHAUSTIONS", "exhaustions", Kind::Scratch, Size::Fixed);
/// A CPU's key for a search in the connection table, IPv6: it is too long for the stack.
pub const SOUGHT_V6: Map = both("SOUGHT_V6", "sought_v6", Kind::Scratch, Size::Fixed);
/// Sources of IPv4 packets that the stack has let through of late, by the interface where they came in.
pub const LET_THROUGH: Map = both("LET_THROUGH", "let_through", Kind::Scratch, Size::Fixed);
/// The programs' counters. State, but no reason to refuse: a counter keeps its index for ever, so what does not fit is
/// copied.
pub const COUNTERS: Map = both("COUNTERS", "counters", Kind::State, Size::Fixed);
/// The service ports, and what of theirs was rejected or dropped. State: connections remember their
/// numbers, and counts go on.
pub const SERVICES: Map = both("SERVICES", "services", Kind::State, Size::Services);
/// Number of connections that the service ports had. State for the same reason.
pub const SERVICE_CONNECTIONS: Map = both(
    "SERVICE_CONNECTIONS",
    "service_connections",
    Kind::State,
    Size::Services,
);
/// Traffic to the service ports and back. State, but no reason to refuse: a table of another size is replaced by one
/// with the same counts.
pub const SERVICE_TRAFFIC: Map = both(
    "SERVICE_TRAFFIC",
    "service_traffic",
    Kind::State,
    Size::Traffic,
);
/// The pair of a connected socket. State: open sockets outlive an agent.
pub const SOCKETS_CONNECTED: Map = both(
    "SOCKETS_CONNECTED",
    "sockets_connected",
    Kind::State,
    Size::Fixed,
);
/// The pair of a UDP socket from the `connect` before. State for the same reason.
pub const SOCKETS_BEFORE: Map = both("SOCKETS_BEFORE", "sockets_before", Kind::State, Size::Fixed);
/// The pairs of a UDP socket that is not connected. State for the same reason.
pub const SOCKETS_ASKED: Map = both("SOCKETS_ASKED", "sockets_asked", Kind::State, Size::Fixed);
/// The interfaces to whose other ends packets may be handed.
pub const PEERS: Map = both("PEERS", "peers", Kind::Setting, Size::Redirect);
/// Roles of the interfaces: [`crate::InterfaceRole`].
pub const INTERFACES: Map = both("INTERFACES", "interfaces", Kind::Setting, Size::Fixed);
/// The interfaces that have the XDP program.
pub const UPLINKS: Map = both("UPLINKS", "uplinks", Kind::Setting, Size::Fixed);
/// The interfaces at which frames for other stations are left alone.
pub const STATIONS: Map = both("STATIONS", "stations", Kind::Setting, Size::Fixed);
/// Words that hold for all packets: [`crate::variables`].
pub const VARIABLES: Map = both("VARIABLES", "variables", Kind::Setting, Size::Fixed);
/// Earliest time of the next rejection.
pub const REJECTIONS: Map = both("REJECTIONS", "rejections", Kind::Scratch, Size::Fixed);
/// A CPU's arguments for a route lookup in the kernel.
pub const LOOKUPS: Map = both("LOOKUPS", "lookups", Kind::Scratch, Size::Fixed);
/// Programs that others hand packets over to, by [`crate::Ipv6Program`]. Each object has its own.
pub const IPV6_PROGRAMS: Map = both("IPV6_PROGRAMS", "ipv6_programs", Kind::Setting, Size::Fixed);
/// Events of connections and packets, for watchers.
pub const FLOW_EVENTS: Map = both("FLOW_EVENTS", "flow_events", Kind::Scratch, Size::Fixed);
/// The choice of these events: [`crate::FlowControl`].
pub const FLOW_CONTROL: Map = both("FLOW_CONTROL", "flow_control", Kind::Scratch, Size::Fixed);
/// The programs' log of packets; the log's library names it.
pub const PACKET_LOG: Map = both("AYA_LOGS", "packet_log", Kind::Scratch, Size::Fixed);

/// The maps of both families.
pub const SHARED: &[Map] = &[
    SEEDS,
    GIVEN_PORTS,
    DIRECT,
    REACHED,
    EXHAUSTIONS,
    SOUGHT_V6,
    LET_THROUGH,
    COUNTERS,
    SERVICES,
    SERVICE_CONNECTIONS,
    SERVICE_TRAFFIC,
    SOCKETS_CONNECTED,
    SOCKETS_BEFORE,
    SOCKETS_ASKED,
    PEERS,
    INTERFACES,
    UPLINKS,
    STATIONS,
    VARIABLES,
    REJECTIONS,
    LOOKUPS,
    IPV6_PROGRAMS,
    FLOW_EVENTS,
    FLOW_CONTROL,
    PACKET_LOG,
];

/// The source ports that connections are given.
pub const SNAT_PORTS: Constant = Constant { name: "SNAT_PORTS" };
/// The source ports at which replies are recognised: those of [`GIVEN_PORTS`] too.
pub const REPLY_PORTS: Constant = Constant {
    name: "REPLY_PORTS",
};
/// Nanoseconds between two rejections.
pub const REJECT_INTERVAL: Constant = Constant {
    name: "REJECT_INTERVAL_NS",
};
/// Number of rejections that may come at once.
pub const REJECT_BURST: Constant = Constant {
    name: "REJECT_BURST",
};
/// The percentage of a table that one client may hold while it is short.
pub const CLIENT_SHARE: Constant = Constant {
    name: "CLIENT_SHARE",
};
/// Nonzero if packets to pods of this node go there in one hop.
pub const REDIRECT: Constant = Constant { name: "REDIRECT" };
/// Nonzero if a packet's interface shows that its sender is a pod of this node.
pub const PODS_BY_INTERFACE: Constant = Constant {
    name: "PODS_BY_INTERFACE",
};
/// Nonzero if connections to ClusterIPs go on from this node's address, for every client.
pub const MASQUERADE_ALL: Constant = Constant {
    name: "MASQUERADE_ALL",
};
/// The cookie of the node's own network namespace, whose sockets are clients.
pub const HOST_NETNS: Constant = Constant { name: "HOST_NETNS" };
/// Nonzero if the sockets of pods are clients too.
pub const SOCKETS_OF_PODS: Constant = Constant {
    name: "SOCKETS_OF_PODS",
};
/// Offset of a task's flags in the kernel's structure, or [`crate::socket::EVERY_TASK`].
pub const TASK_FLAGS: Constant = Constant { name: "TASK_FLAGS" };
/// Nonzero if a packet determines the backend of its connection, so that each hook chooses the same.
pub const CHOSEN_BY_PACKET: Constant = Constant {
    name: "CHOSEN_BY_PACKET",
};
/// Treatment of packets for services' addresses that are for no frontend.
pub const GUARD: Constant = Constant { name: "GUARD" };
/// Nonzero if packets and bytes are counted for each service port.
pub const COUNT_TRAFFIC: Constant = Constant {
    name: "COUNT_TRAFFIC",
};
/// Nonzero if backends behind frontends in mode dsr announce how much fits into an envelope.
pub const LOWER_MSS: Constant = Constant { name: "LOWER_MSS" };
/// The words of [`SEEDS`].
pub const CONNTRACK_SEEDS: Constant = Constant {
    name: "CONNTRACK_SEEDS",
};
/// Number of ticks that a connection may be silent.
pub const CONNTRACK_TIMEOUTS: Constant = Constant {
    name: "CONNTRACK_TIMEOUTS",
};
/// Number of jiffies that the kernel counts in a second.
pub const CLOCK_HZ: Constant = Constant { name: "CLOCK_HZ" };
/// The tables that hand over to ours, a [`handover::From`].
pub const HANDS_OVER: Constant = Constant { name: "HANDS_OVER" };

/// The constants of both families.
pub const CONSTANTS: [Constant; 19] = [
    SNAT_PORTS,
    REPLY_PORTS,
    REJECT_INTERVAL,
    REJECT_BURST,
    CLIENT_SHARE,
    REDIRECT,
    PODS_BY_INTERFACE,
    MASQUERADE_ALL,
    HOST_NETNS,
    SOCKETS_OF_PODS,
    TASK_FLAGS,
    CHOSEN_BY_PACKET,
    GUARD,
    COUNT_TRAFFIC,
    LOWER_MSS,
    CONNTRACK_SEEDS,
    CONNTRACK_TIMEOUTS,
    CLOCK_HZ,
    HANDS_OVER,
];

/// Every map.
pub fn maps() -> impl Iterator<Item = Map> {
    let families = [FamilyMaps::V4.all(), FamilyMaps::V6.all()];
    let maps = families.into_iter().flatten().chain(SHARED.iter().copied());
    maps.chain(handover::ALL)
}

impl Size {
    /// Returns the common name of the entries.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Frontends => "frontends",
            Self::Slots => "slots",
            Self::Backends => "backends",
            Self::Conntrack => "conntrack entries",
            Self::Affinity => "affinities",
            Self::SourceRanges => "source ranges",
            Self::Fragments => "fragments",
            Self::Services | Self::Traffic => "services",
            Self::Redirect => "redirects",
            Self::Xdp => "ways",
            Self::Fixed => "entries",
        }
    }
}
