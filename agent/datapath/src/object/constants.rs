//! Constants of the programs: settings that never change while they are loaded.

use aya::EbpfLoader;
use bytemuck::Zeroable as _;
use ipnet::IpNet;
use shunt_common::{
    Cidr, PodCidrs, PortRange, V4, V6,
    connections::{Seeds, Timeouts, homes_of},
    registry,
};

use crate::{
    error::{DatapathError, SocketError},
    maps::{clock::Rate, family::FromIp},
    object::{
        options::{DatapathOptions, PacketLog},
        pods::PodDetection,
        sockets::SocketLb,
        takeover::{Slots, Takeover},
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
    /// How many rejections may come at once.
    reject_burst: u64,
    /// Not 0: packets to pods of this node go there in one hop.
    redirect: u32,
    /// Not 0: interfaces tell this node's pods.
    pods_by_interface: u32,
    /// Not 0: all connections to ClusterIPs are masqueraded.
    masquerade_all: u32,
    /// The cookie of our network namespace, whose sockets are clients.
    host_netns: u64,
    /// Not 0: the sockets of others are too.
    sockets_of_pods: u32,
    /// Not 0: packets say which backends their connections get.
    chosen_by_packet: u32,
    /// What the guard does.
    guard: u32,
    /// Not 0: packets and bytes are counted for each service port.
    count_traffic: u32,
    lower_mss: u32,
    seeds: Raw<Seeds>,
    timeouts: Raw<Timeouts>,
    clock_hz: u32,
    hands_over: u32,
    previous_clock: u32,
    log_level: u8,
}

impl Constants {
    /// Those that `options` lead to, over the tables of this `takeover`.
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
            count_traffic,
            lower_mss,
            dsr_sources,
            timeouts,
            families: _,
            sizes: _,
            pin_dir: _,
        } = options;
        let ranges = Ranges {
            pods: pod_cidrs,
            cluster: cluster_cidrs,
            dsr_sources,
        };
        Ok(Self {
            v4: OfFamily::new(ranges, *hairpin_v4, takeover.v4)?,
            v6: OfFamily::new(ranges, *hairpin_v6, takeover.v6)?,
            snat_ports: Raw(*snat_ports),
            reply_ports: Raw(takeover.given_ports),
            reject_interval: rejects.interval(),
            reject_burst: rejects.burst(),
            redirect: (*redirect).into(),
            pods_by_interface: interfaces.are_known().into(),
            masquerade_all: (*masquerade_all).into(),
            host_netns: match sockets.mode {
                // Nobody looks.
                SocketLb::Off => 0,
                SocketLb::Host | SocketLb::All => netns_cookie().map_err(SocketError::Cookie)?,
            },
            sockets_of_pods: u32::from(sockets.mode == SocketLb::All),
            chosen_by_packet: xdp.is_on().into(),
            guard: guard.bits(),
            count_traffic: (*count_traffic).into(),
            lower_mss: (*lower_mss).into(),
            seeds: Raw(takeover.seeds),
            timeouts: Raw(timeouts.in_ticks(rate)),
            clock_hz: rate.hz,
            hands_over: takeover.from as u32,
            previous_clock: takeover.clock,
            log_level: match packet_log {
                PacketLog::Off => 0,
                PacketLog::Debug => aya_log::Level::Debug as u8,
            },
        })
    }

    /// Has the loader put them into the object.
    pub(crate) fn set<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        let Self {
            v4,
            v6,
            snat_ports,
            reply_ports,
            reject_interval,
            reject_burst,
            redirect,
            pods_by_interface,
            masquerade_all,
            host_netns,
            sockets_of_pods,
            chosen_by_packet,
            guard,
            count_traffic,
            lower_mss,
            seeds,
            timeouts,
            clock_hz,
            hands_over,
            previous_clock,
            log_level,
        } = self;
        v4.set(loader);
        v6.set(loader);
        loader
            .override_global(registry::SNAT_PORTS.name, snat_ports, true)
            .override_global(registry::REPLY_PORTS.name, reply_ports, true)
            .override_global(registry::REJECT_INTERVAL.name, reject_interval, true)
            .override_global(registry::REJECT_BURST.name, reject_burst, true)
            .override_global(registry::REDIRECT.name, redirect, true)
            .override_global(registry::PODS_BY_INTERFACE.name, pods_by_interface, true)
            .override_global(registry::MASQUERADE_ALL.name, masquerade_all, true)
            .override_global(registry::HOST_NETNS.name, host_netns, true)
            .override_global(registry::SOCKETS_OF_PODS.name, sockets_of_pods, true)
            .override_global(registry::CHOSEN_BY_PACKET.name, chosen_by_packet, true)
            .override_global(registry::GUARD.name, guard, true)
            .override_global(registry::COUNT_TRAFFIC.name, count_traffic, true)
            .override_global(registry::LOWER_MSS.name, lower_mss, true)
            .override_global(registry::CONNTRACK_SEEDS.name, seeds, true)
            .override_global(registry::CONNTRACK_TIMEOUTS.name, timeouts, true)
            .override_global(registry::CLOCK_HZ.name, clock_hz, true)
            .override_global(registry::HANDS_OVER.name, hands_over, true)
            .override_global(registry::PREVIOUS_CLOCK.name, previous_clock, true)
            .override_global(aya_log::LEVEL, log_level, true);
    }
}

/// The ranges of both families.
#[derive(Clone, Copy)]
struct Ranges<'a> {
    pods: &'a [IpNet],
    cluster: &'a [IpNet],
    dsr_sources: &'a [IpNet],
}

/// Those of one family.
struct OfFamily<F: FromIp> {
    pod_cidrs: Raw<PodCidrs<F>>,
    cluster_cidrs: Raw<PodCidrs<F>>,
    dsr_sources: Raw<PodCidrs<F>>,
    hairpin_ip: Raw<F::Address>,
    conntrack_homes: u32,
    previous_homes: u32,
}

impl<F: FromIp> OfFamily<F> {
    fn new(ranges: Ranges<'_>, hairpin_ip: F::Ip, slots: Slots) -> Result<Self, DatapathError> {
        Ok(Self {
            pod_cidrs: Raw(constant_cidrs(ranges.pods)?),
            cluster_cidrs: Raw(constant_cidrs(ranges.cluster)?),
            dsr_sources: Raw(constant_cidrs(ranges.dsr_sources)?),
            hairpin_ip: Raw(F::network_order(hairpin_ip)),
            conntrack_homes: homes_of(slots.ours),
            previous_homes: homes_of(slots.previous),
        })
    }

    fn set<'a>(&'a self, loader: &mut EbpfLoader<'a>) {
        loader
            .override_global(F::CONSTANTS.pod_cidrs.name, &self.pod_cidrs, true)
            .override_global(F::CONSTANTS.cluster_cidrs.name, &self.cluster_cidrs, true)
            .override_global(F::CONSTANTS.dsr_sources.name, &self.dsr_sources, true)
            .override_global(F::CONSTANTS.hairpin_ip.name, &self.hairpin_ip, true)
            .override_global(
                F::CONSTANTS.conntrack_homes.name,
                &self.conntrack_homes,
                true,
            )
            .override_global(F::CONSTANTS.previous_homes.name, &self.previous_homes, true);
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
