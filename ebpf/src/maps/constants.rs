//! Constants that the agent sets before it loads the programs; the verifier removes what they
//! switch off.

use aya_ebpf::Global;
use shunt_common::{
    PodCidrs, PortRange, V4, V6,
    connections::{Seeds, Timeouts},
    registry::Packets,
};

/// The treatment of IPv4 packets: one of [`Packets`].
#[unsafe(no_mangle)]
pub(crate) static PACKETS_V4: Global<u32> = Global::new(Packets::Translated as u32);

/// The treatment of IPv6 packets: one of [`Packets`].
#[unsafe(no_mangle)]
pub(crate) static PACKETS_V6: Global<u32> = Global::new(Packets::Translated as u32);

/// Ranges of the addresses of this node's IPv4 pods.
#[unsafe(no_mangle)]
pub(crate) static POD_CIDRS_V4: Global<PodCidrs<V4>> = Global::new(PodCidrs::none(0));

/// Ranges of the addresses of this node's IPv6 pods.
#[unsafe(no_mangle)]
pub(crate) static POD_CIDRS_V6: Global<PodCidrs<V6>> = Global::new(PodCidrs::none([0; 4]));

/// Ranges of the addresses of the cluster's IPv4 pods, on whatever node.
#[unsafe(no_mangle)]
pub(crate) static CLUSTER_CIDRS_V4: Global<PodCidrs<V4>> = Global::new(PodCidrs::none(0));

/// Ranges of the addresses of the cluster's IPv6 pods, on whatever node.
#[unsafe(no_mangle)]
pub(crate) static CLUSTER_CIDRS_V6: Global<PodCidrs<V6>> = Global::new(PodCidrs::none([0; 4]));

/// Ranges that IPv4 envelopes may come from besides the nodes' own addresses. Ours come from the first range.
#[unsafe(no_mangle)]
pub(crate) static DSR_SOURCES_V4: Global<PodCidrs<V4>> = Global::new(PodCidrs::none(0));

/// Ranges that IPv6 envelopes may come from besides the nodes' own addresses. Ours come from the first range.
#[unsafe(no_mangle)]
pub(crate) static DSR_SOURCES_V6: Global<PodCidrs<V6>> = Global::new(PodCidrs::none([0; 4]));

/// Nonzero if a packet's interface shows that its sender is a pod of this node; 0: its address alone does.
#[unsafe(no_mangle)]
pub(crate) static PODS_BY_INTERFACE: Global<u32> = Global::new(0);

/// Nonzero if connections to ClusterIPs go on from this node's address, whatever the client is; 0: only if
/// their replies would not come back otherwise.
#[unsafe(no_mangle)]
pub(crate) static MASQUERADE_ALL: Global<u32> = Global::new(0);

/// The IPv4 address that a pod sees when it reaches itself through its service, network order.
#[unsafe(no_mangle)]
pub(crate) static HAIRPIN_IP_V4: Global<u32> = Global::new(0);

/// The IPv6 address that a pod sees when it reaches itself through its service, network order.
#[unsafe(no_mangle)]
pub(crate) static HAIRPIN_IP_V6: Global<[u32; 4]> = Global::new([0; 4]);

/// Nonzero if NodePorts are at the host's IPv4 loopback addresses, for its own processes; 0: they are not.
#[unsafe(no_mangle)]
pub(crate) static LOCAL_NODE_PORTS_V4: Global<u32> = Global::new(0);

/// Nonzero if NodePorts are at the host's IPv6 loopback address, for its own processes; 0: they are not.
#[unsafe(no_mangle)]
pub(crate) static LOCAL_NODE_PORTS_V6: Global<u32> = Global::new(0);

/// The source ports that connections are given.
#[unsafe(no_mangle)]
pub(crate) static SNAT_PORTS: Global<PortRange> = Global::new(PortRange { first: 0, count: 1 });

/// The source ports that connections may have been given, by this agent or one before it.
#[unsafe(no_mangle)]
pub(crate) static REPLY_PORTS: Global<PortRange> = Global::new(PortRange { first: 0, count: 1 });

/// Average interval between two rejections in nanoseconds; 0: any number of them is sent.
#[unsafe(no_mangle)]
pub(crate) static REJECT_INTERVAL_NS: Global<u64> = Global::new(0);

/// Number of rejections that may be sent at once after a silence.
#[unsafe(no_mangle)]
pub(crate) static REJECT_BURST: Global<u64> = Global::new(0);

/// The percentage of the connections, and of the rejections, that one client may have while there are too few places
/// for all; 0: any.
#[unsafe(no_mangle)]
pub(crate) static CLIENT_SHARE: Global<u32> = Global::new(0);

/// Number of homes of the conntrack table, IPv4.
#[unsafe(no_mangle)]
pub(crate) static CONNTRACK_HOMES_V4: Global<u32> = Global::new(1);

/// Number of homes of the conntrack table, IPv6.
#[unsafe(no_mangle)]
pub(crate) static CONNTRACK_HOMES_V6: Global<u32> = Global::new(1);

/// Seeds of the conntrack tables' hashes.
#[unsafe(no_mangle)]
pub(crate) static CONNTRACK_SEEDS: Global<Seeds> = Global::new(Seeds([0; 10]));

/// Times for which connections are remembered.
#[unsafe(no_mangle)]
pub(crate) static CONNTRACK_TIMEOUTS: Global<Timeouts> = Global::new(Timeouts::linux(1));

/// Number of ticks a second of the kernel's own clock.
#[unsafe(no_mangle)]
pub(crate) static CLOCK_HZ: Global<u32> = Global::new(1);

/// Nonzero if packets to pods of this node go there in one hop; 0: through the stack.
#[unsafe(no_mangle)]
pub(crate) static REDIRECT: Global<u32> = Global::new(0);

/// The cookie of the node's own network namespace, whose sockets are clients.
#[unsafe(no_mangle)]
pub(crate) static HOST_NETNS: Global<u64> = Global::new(0);

/// Nonzero if the sockets of pods are clients too; 0: their packets alone are.
#[unsafe(no_mangle)]
pub(crate) static SOCKETS_OF_PODS: Global<u32> = Global::new(0);

/// Offset of the flags in the kernel's structure of a task, in bytes: they show whether it is a kernel thread. 0: none
/// counts as one. [`shunt_common::socket::EVERY_TASK`]: each counts as one.
#[unsafe(no_mangle)]
pub(crate) static TASK_FLAGS: Global<u32> = Global::new(0);

/// Nonzero if a packet determines the backend of its connection, so that each hook chooses the same; 0: it
/// is drawn.
#[unsafe(no_mangle)]
pub(crate) static CHOSEN_BY_PACKET: Global<u32> = Global::new(0);

/// Treatment of packets for services' addresses that are for no frontend: bits, see
/// [`crate::maps::guarded`].
#[unsafe(no_mangle)]
pub(crate) static GUARD: Global<u32> = Global::new(0);

/// Nonzero if packets and bytes are counted for each service port; 0: no.
#[unsafe(no_mangle)]
pub(crate) static COUNT_TRAFFIC: Global<u32> = Global::new(0);

/// Nonzero if backends behind frontends in mode dsr announce how much fits into an envelope; 0: their own
/// values.
#[unsafe(no_mangle)]
pub(crate) static LOWER_MSS: Global<u32> = Global::new(0);

/// Returns whether backends behind frontends in mode dsr announce how much fits into an envelope.
#[inline(always)]
pub(crate) fn lowers_mss() -> bool {
    LOWER_MSS.load() != 0
}

/// Returns whether connections to ClusterIPs go on from this node's address, whatever the client is.
#[inline(always)]
pub(crate) fn masquerades_all() -> bool {
    MASQUERADE_ALL.load() != 0
}

/// Returns whether a packet determines the backend of its connection, see [`crate::lb::draw`].
#[inline(always)]
pub(crate) fn is_chosen_by_packet() -> bool {
    CHOSEN_BY_PACKET.load() != 0
}

/// Returns whether the interface of a packet may show that its sender is a pod of this node, and the route to
/// an address that a pod of this node has it.
#[inline(always)]
pub(crate) fn are_pods_told_by_interface() -> bool {
    PODS_BY_INTERFACE.load() != 0
}

/// Returns whether packets to pods of this node go there in one hop, see [`crate::forward::redirect`].
#[inline(always)]
pub(crate) fn redirects() -> bool {
    REDIRECT.load() != 0
}

/// A family's constants.
pub(crate) trait Constants: shunt_common::Family {
    /// Returns the treatment of its packets: one of [`Packets`].
    fn packets() -> u32;

    /// Returns whether its packets and sockets are translated; if not, the verifier removes the code.
    #[inline(always)]
    fn is_translated() -> bool {
        Self::packets() != Packets::Pass as u32
    }

    /// Returns the ranges of the addresses of this node's pods.
    fn pod_cidrs() -> &'static Global<PodCidrs<Self>>;

    /// Returns the ranges of the addresses of the cluster's pods.
    fn cluster_cidrs() -> &'static Global<PodCidrs<Self>>;

    /// Returns the ranges that envelopes may come from besides the nodes' own addresses.
    fn dsr_sources() -> &'static Global<PodCidrs<Self>>;

    /// The address that a pod sees when it reaches itself through its service.
    fn hairpin_ip() -> Self::Address;

    /// Returns whether NodePorts are at the host's loopback addresses, for its own processes.
    fn has_local_node_ports() -> bool;
}

impl Constants for V4 {
    #[inline(always)]
    fn packets() -> u32 {
        PACKETS_V4.load()
    }

    #[inline(always)]
    fn pod_cidrs() -> &'static Global<PodCidrs<Self>> {
        &POD_CIDRS_V4
    }

    #[inline(always)]
    fn cluster_cidrs() -> &'static Global<PodCidrs<Self>> {
        &CLUSTER_CIDRS_V4
    }

    #[inline(always)]
    fn dsr_sources() -> &'static Global<PodCidrs<Self>> {
        &DSR_SOURCES_V4
    }

    #[inline(always)]
    fn hairpin_ip() -> u32 {
        HAIRPIN_IP_V4.load()
    }

    #[inline(always)]
    fn has_local_node_ports() -> bool {
        LOCAL_NODE_PORTS_V4.load() != 0
    }
}

impl Constants for V6 {
    #[inline(always)]
    fn packets() -> u32 {
        PACKETS_V6.load()
    }

    #[inline(always)]
    fn pod_cidrs() -> &'static Global<PodCidrs<Self>> {
        &POD_CIDRS_V6
    }

    #[inline(always)]
    fn cluster_cidrs() -> &'static Global<PodCidrs<Self>> {
        &CLUSTER_CIDRS_V6
    }

    #[inline(always)]
    fn dsr_sources() -> &'static Global<PodCidrs<Self>> {
        &DSR_SOURCES_V6
    }

    #[inline(always)]
    fn hairpin_ip() -> [u32; 4] {
        HAIRPIN_IP_V6.load()
    }

    #[inline(always)]
    fn has_local_node_ports() -> bool {
        LOCAL_NODE_PORTS_V6.load() != 0
    }
}
