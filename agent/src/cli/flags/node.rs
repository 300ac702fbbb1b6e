//! What is known of this node.

use std::{net::IpAddr, num::NonZeroU32};

use anyhow::Context as _;
use clap::Args;
use ipnet::IpNet;
use shunt::host_addresses;
use shunt_model::{Balancing, RenderOptions};

use crate::cli::flags::selection::SelectionArgs;

/// What the renderer has to know of this node.
#[derive(Debug, Clone, Args)]
pub(crate) struct NodeArgs {
    /// An address of this node; may be given several times [default: those node addresses of the
    /// events that are assigned on this host]
    #[arg(long = "node-ip", value_name = "IP")]
    pub(crate) node_ips: Vec<IpAddr>,

    /// How many times the weight of a backend on this node counts; not of a service port with a Maglev
    /// table, which is to be the same on all nodes
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) local_backend_weight: NonZeroU32,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

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
            selection,
            pod_cidrs: _,
        } = self;
        Ok(RenderOptions {
            node_ips: node_ips.iter().copied().collect(),
            host_addresses: host_addresses().context("cannot read the addresses of this host")?,
            balancing: Balancing {
                local_backend_weight: *local_backend_weight,
                external_selection: selection.external(),
                maglev_entries: selection.maglev_entries(),
            },
        })
    }
}
