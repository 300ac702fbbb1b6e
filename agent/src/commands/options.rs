//! Flags that several commands share.

use std::{net::IpAddr, num::NonZeroU32, path::Path, path::PathBuf};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use shunt::host_addresses;
use shunt_common::PortRange;
use shunt_datapath::Families;
use shunt_model::RenderOptions;

/// Where the datapath is pinned.
#[derive(Debug, Clone, Args)]
pub(crate) struct PinArgs {
    /// Where the kernel keeps tables, programs and links, on a bpf file system; one agent each
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/shunt")]
    pub(crate) pin_dir: PathBuf,
}

/// From where connections from outside to backends on other nodes go on.
#[derive(Debug, Clone, Args)]
pub(crate) struct SnatArgs {
    /// The address of this node that connections from outside to backends on other nodes go on
    /// from; once for each family [default: the lowest of the node's own]
    #[arg(long = "snat-ip", value_name = "IP")]
    pub(crate) snat_ips: Vec<IpAddr>,

    /// The source ports that they are given; the host's own connections must not use them
    #[arg(long, value_name = "FIRST-LAST", default_value = "1024-29999", value_parser = port_range)]
    pub(crate) snat_ports: PortRange,
}

fn port_range(text: &str) -> Result<PortRange, String> {
    let ends = text
        .split_once('-')
        .and_then(|(first, last)| Some((first.parse().ok()?, last.parse().ok()?)));
    let (first, last) = ends.ok_or("not of the form FIRST-LAST, as in 1024-29999")?;
    PortRange::within(first, last).ok_or_else(|| "there is no port in this range".to_owned())
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IpFamily {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
}

/// Which families are translated.
#[derive(Debug, Clone, Args)]
pub(crate) struct FamilyArgs {
    /// The address families that are translated; frontends of another are left out, and its tables
    /// take no memory [default: ipv4, and ipv6 if this host has it]
    #[arg(long, value_name = "FAMILIES", value_enum, value_delimiter = ',')]
    pub(crate) ip_families: Vec<IpFamily>,
}

impl FamilyArgs {
    /// The families.
    pub(crate) fn families(&self) -> Families {
        let Self { ip_families } = self;
        if ip_families.is_empty() {
            return Families {
                ipv4: true,
                // A kernel without IPv6, or with it switched off, does not have the file.
                ipv6: Path::new("/proc/net/if_inet6").exists(),
            };
        }
        Families {
            ipv4: ip_families.contains(&IpFamily::Ipv4),
            ipv6: ip_families.contains(&IpFamily::Ipv6),
        }
    }
}

/// Where the agent is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct SocketArgs {
    /// The agent's Unix socket, where it takes events and questions
    #[arg(long, value_name = "PATH", default_value = "/run/shunt/shunt.sock")]
    pub(crate) socket: PathBuf,
}

/// What the renderer has to know of this node.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodeArgs {
    /// An address of this node; may be given several times [default: those node addresses of the
    /// events that are assigned on this host]
    #[arg(long = "node-ip", value_name = "IP")]
    pub(crate) node_ips: Vec<IpAddr>,

    /// Multiplies the weight of backends on this node
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) local_backend_weight: NonZeroU32,

    /// A range of addresses of this node's pods; may be given several times, for both families
    #[arg(long = "pod-cidr", value_name = "CIDR")]
    pub(crate) pod_cidrs: Vec<IpNet>,
}

impl NodeArgs {
    /// The renderer's settings.
    pub(crate) fn render_options(&self) -> anyhow::Result<RenderOptions> {
        let Self {
            node_ips,
            local_backend_weight,
            pod_cidrs: _,
        } = self;
        Ok(RenderOptions {
            node_ips: node_ips.iter().copied().collect(),
            host_addresses: host_addresses().context("cannot read the addresses of this host")?,
            local_backend_weight: *local_backend_weight,
        })
    }
}
