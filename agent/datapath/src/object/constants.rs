//! Constants of the programs: settings that never change while they are loaded.

use aya::EbpfLoader;
use bytemuck::{Zeroable as _, bytes_of};
use ipnet::IpNet;
use shunt_common::{
    Cidr, PodCidrs, PortRange, V4, V6,
    connections::{Seeds, Timeouts, homes_of},
    registry::{self, Packets, handover::From},
};

use crate::{
    error::{DatapathError, SocketError},
    maps::{clock::Rate, family::FromIp},
    object::{
        options::{DatapathOptions, PacketLog},
        pods::PodDetection,
        sockets::SocketLb,
        takeover::{Slots, Takeover},
        task_flags::task_flags,
    },
    sys::{netns_cookie::netns_cookie, raw::Raw},
};

/// The values of all constants, as the programs hold them.
pub(crate) struct Constants {
    v4: OfFamily<V4>,
    v6: OfFamily<V6>,
    snat_ports: Raw<PortRange>,
    reply_ports: Raw<PortRange>,
    /// Nanoseconds between two rejections; 0: no limit.
    reject_interval: u64,
    /// Number of rejections that may come at once.
    reject_burst: u64,
    /// Percent; 0: no limit.
    client_share: u32,
    /// Not 0: packets to pods of this node go there in one hop.
    redirect: u32,
    /// Not 0: pods of this node are recognised by their interfaces.
    pods_by_interface: u32,
    /// Not 0: all connections to ClusterIPs are masqueraded.
    masquerade_all: u32,
    /// The cookie of our network namespace, whose sockets are clients.
    host_netns: u64,
    /// Not 0: the sockets of others are too.
    sockets_of_pods: u32,
    /// Offset of the flags of a task; 0: no program looks.
    task_flags: u32,
    /// Not 0: packets show which backends their connections get.
    chosen_by_packet: u32,
    /// Options of the guard.
    guard: u32,
    /// Not 0: packets and bytes are counted for each service port.
    count_traffic: u32,
    lower_mss: u32,
    seeds: Raw<Seeds>,
    timeouts: Raw<Timeouts>,
    clock_hz: u32,
    hands_over: u32,
    log_level: u8,
}

impl Constants {
    /// Returns the constants for `options`, over the tables of this `takeover`.
    pub(crate) fn of(
        options: &DatapathOptions,
        takeover: &Takeover,
        rate: Rate,
    ) -> Result<Self, DatapathError> {
        let DatapathOptions {
            excluded_interfaces: _,
            pod_cidrs,
            pods:
                PodDetection {
                    cluster_cidrs,
                    interfaces,
                },
            masquerade_all,
            hairpin_v4,
            hairpin_v6,
            snat_v4: _,
            snat_v6: _,
            snat_ports,
            packet_log,
            redirect,
            xdp,
            sockets,
            guard,
            rejects,
            client_share,
            count_traffic,
            lower_mss,
            dsr_sources,
            timeouts,
            families,
            sizes: _,
            pin_dir: _,
        } = options;
        let ranges = Ranges {
            pods: pod_cidrs,
            cluster: cluster_cidrs,
            dsr_sources,
        };
        Ok(Self {
            v4: OfFamily::new(
                packets(families.ipv4, takeover.v4, takeover.from),
                ranges,
                *hairpin_v4,
                sockets.local_node_ports.ipv4,
                takeover.v4,
            )?,
            v6: OfFamily::new(
                packets(families.ipv6, takeover.v6, takeover.from),
                ranges,
                *hairpin_v6,
                sockets.local_node_ports.ipv6,
                takeover.v6,
            )?,
            snat_ports: Raw(*snat_ports),
            reply_ports: Raw(takeover.given_ports),
            reject_interval: rejects.interval(),
            reject_burst: rejects.burst(),
            client_share: client_share.map_or(0, |share| share.get().into()),
            redirect: (*redirect).into(),
            pods_by_interface: interfaces.are_known().into(),
            masquerade_all: (*masquerade_all).into(),
            host_netns: match sockets.mode {
                // No program looks.
                SocketLb::Off => 0,
                SocketLb::Host | SocketLb::All => netns_cookie().map_err(SocketError::Cookie)?,
            },
            sockets_of_pods: u32::from(sockets.mode == SocketLb::All),
            task_flags: match sockets.mode {
                SocketLb::Off => 0,
                SocketLb::Host | SocketLb::All => task_flags(),
            },
            chosen_by_packet: xdp.is_on().into(),
            guard: guard.bits(),
            count_traffic: (*count_traffic).into(),
            lower_mss: (*lower_mss).into(),
            seeds: Raw(takeover.seeds),
            timeouts: Raw(timeouts.in_ticks(rate)),
            clock_hz: rate.hz,
            hands_over: takeover.from as u32,
            log_level: match packet_log {
                PacketLog::Off => 0,
                PacketLog::Debug => aya_log::Level::Debug as u8,
            },
        })
    }

    /// Has the loader put them into the object.
    pub(crate) fn set<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        for (name, value) in self.values() {
            loader.override_global(name, value, true);
        }
    }

    /// Each by its name, as the programs hold it.
    pub(crate) fn values(&self) -> Vec<(&'static str, &[u8])> {
        let Self {
            v4,
            v6,
            snat_ports,
            reply_ports,
            reject_interval,
            reject_burst,
            client_share,
            redirect,
            pods_by_interface,
            masquerade_all,
            host_netns,
            sockets_of_pods,
            task_flags,
            chosen_by_packet,
            guard,
            count_traffic,
            lower_mss,
            seeds,
            timeouts,
            clock_hz,
            hands_over,
            log_level,
        } = self;
        let shared = [
            (registry::SNAT_PORTS.name, bytes_of(&snat_ports.0)),
            (registry::REPLY_PORTS.name, bytes_of(&reply_ports.0)),
            (registry::REJECT_INTERVAL.name, bytes_of(reject_interval)),
            (registry::REJECT_BURST.name, bytes_of(reject_burst)),
            (registry::CLIENT_SHARE.name, bytes_of(client_share)),
            (registry::REDIRECT.name, bytes_of(redirect)),
            (
                registry::PODS_BY_INTERFACE.name,
                bytes_of(pods_by_interface),
            ),
            (registry::MASQUERADE_ALL.name, bytes_of(masquerade_all)),
            (registry::HOST_NETNS.name, bytes_of(host_netns)),
            (registry::SOCKETS_OF_PODS.name, bytes_of(sockets_of_pods)),
            (registry::TASK_FLAGS.name, bytes_of(task_flags)),
            (registry::CHOSEN_BY_PACKET.name, bytes_of(chosen_by_packet)),
            (registry::GUARD.name, bytes_of(guard)),
            (registry::COUNT_TRAFFIC.name, bytes_of(count_traffic)),
            (registry::LOWER_MSS.name, bytes_of(lower_mss)),
            (registry::CONNTRACK_SEEDS.name, bytes_of(&seeds.0)),
            (registry::CONNTRACK_TIMEOUTS.name, bytes_of(&timeouts.0)),
            (registry::CLOCK_HZ.name, bytes_of(clock_hz)),
            (registry::HANDS_OVER.name, bytes_of(hands_over)),
            (aya_log::LEVEL, bytes_of(log_level)),
        ];
        let families = v4.values().into_iter().chain(v6.values());
        families.chain(shared).collect()
    }
}

/// The ranges of both families.
#[derive(Clone, Copy)]
struct Ranges<'a> {
    pods: &'a [IpNet],
    cluster: &'a [IpNet],
    dsr_sources: &'a [IpNet],
}

/// Returns the treatment of a family's packets. Connections of a pinned table go on, also if their family is
/// left out now.
const fn packets(is_translated: bool, slots: Slots, from: From) -> Packets {
    let may_have_connections = slots.ours > 1 || slots.previous > 1;
    match from {
        From::Nothing | From::Array if !is_translated && !may_have_connections => Packets::Pass,
        From::Nothing => Packets::Translated,
        From::Array => Packets::HandedOver,
    }
}

/// Constants of one family.
struct OfFamily<F: FromIp> {
    packets: u32,
    pod_cidrs: Raw<PodCidrs<F>>,
    cluster_cidrs: Raw<PodCidrs<F>>,
    dsr_sources: Raw<PodCidrs<F>>,
    hairpin_ip: Raw<F::Address>,
    /// Not 0: NodePorts are at the host's loopback addresses.
    local_node_ports: u32,
    conntrack_homes: u32,
    previous_homes: u32,
}

impl<F: FromIp> OfFamily<F> {
    fn new(
        packets: Packets,
        ranges: Ranges<'_>,
        hairpin_ip: F::Ip,
        has_local_node_ports: bool,
        slots: Slots,
    ) -> Result<Self, DatapathError> {
        Ok(Self {
            packets: packets as u32,
            pod_cidrs: Raw(constant_cidrs(ranges.pods)?),
            cluster_cidrs: Raw(constant_cidrs(ranges.cluster)?),
            dsr_sources: Raw(constant_cidrs(ranges.dsr_sources)?),
            hairpin_ip: Raw(F::network_order(hairpin_ip)),
            local_node_ports: has_local_node_ports.into(),
            conntrack_homes: homes_of(slots.ours),
            previous_homes: homes_of(slots.previous),
        })
    }

    fn values(&self) -> [(&'static str, &[u8]); 8] {
        let Self {
            packets,
            pod_cidrs,
            cluster_cidrs,
            dsr_sources,
            hairpin_ip,
            local_node_ports,
            conntrack_homes,
            previous_homes,
        } = self;
        let names = F::CONSTANTS;
        [
            (names.packets.name, bytes_of(packets)),
            (names.pod_cidrs.name, bytes_of(&pod_cidrs.0)),
            (names.cluster_cidrs.name, bytes_of(&cluster_cidrs.0)),
            (names.dsr_sources.name, bytes_of(&dsr_sources.0)),
            (names.hairpin_ip.name, bytes_of(&hairpin_ip.0)),
            (names.local_node_ports.name, bytes_of(local_node_ports)),
            (names.conntrack_homes.name, bytes_of(conntrack_homes)),
            (names.previous_homes.name, bytes_of(previous_homes)),
        ]
    }
}

/// The ranges of family `F` among `networks`, as the programs hold them.
fn constant_cidrs<F: FromIp>(networks: &[IpNet]) -> Result<PodCidrs<F>, DatapathError> {
    let ranges: Vec<Cidr<F>> = networks
        .iter()
        .filter_map(|network| {
            Some(Cidr {
                address: F::address(network.network())?,
                mask: F::address(network.netmask())?,
            })
        })
        .collect();
    let mut constant = PodCidrs::none(F::Address::zeroed());
    let room = constant
        .cidrs
        .get_mut(..ranges.len())
        .ok_or(DatapathError::TooManyPodCidrs {
            given: ranges.len(),
            limit: PodCidrs::<F>::CAPACITY,
        })?;
    room.copy_from_slice(&ranges);
    constant.count = ranges.len() as u32;
    Ok(constant)
}
