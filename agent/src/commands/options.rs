//! Flags that several commands share.

use std::{net::IpAddr, num::NonZeroU32, path::PathBuf};

use anyhow::Context as _;
use clap::Args;
use ipnet::IpNet;
use shunt::renderer::{RenderOptions, host_addresses};

/// Where the datapath is pinned.
#[derive(Debug, Clone, Args)]
pub(crate) struct PinArgs {
    /// Where the kernel keeps tables, programs and links, on a bpf file system; one agent each
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/shunt")]
    pub(crate) pin_dir: PathBuf,
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

    /// A range of addresses of this node's pods; may be given several times
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
