//! The renderer's settings of this node.

use std::{net::IpAddr, num::NonZeroU32};

use anyhow::Context as _;
use clap::{Args, ValueEnum};
use ipnet::IpNet;
use shunt_model::{Balancing, Forwarding, RenderOptions};

use crate::{
    cli::flags::{cidr::cidr, dsr::DsrArgs, selection::SelectionArgs, switch::Switch},
    host::addresses::host_addresses,
};

/// Forwarding of packets from outside to backends on other nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum Way {
    /// From this node's address: replies come back through this node
    #[default]
    Snat,
    /// Unchanged, in an envelope to the backend's node, which answers the client itself
    Dsr,
}

/// Settings of this node for the renderer.
#[derive(Debug, Clone, Args)]
#[command(
    next_help_heading = "This node",
    mut_arg("masquerade-external", Switch::flag)
)]
pub(crate) struct NodeArgs {
    /// An address of this node; may be given several times [default: those node addresses of the
    /// events that are assigned on this host]
    #[arg(long = "node-ip", value_name = "IP")]
    pub(crate) node_ips: Vec<IpAddr>,

    /// Factor of the weight of a backend on this node; not of a service port with a Maglev table, which is to be the
    /// same on all nodes
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) local_backend_weight: NonZeroU32,

    #[command(flatten)]
    pub(crate) selection: SelectionArgs,

    /// Forwarding of packets from outside to backends on other nodes, where the service does not set it
    #[arg(long, value_name = "HOW", value_enum, default_value_t)]
    forwarding: Way,

    /// Give connections from other hosts to external frontends of policy Cluster this node's address as their source
    /// towards backends on this node, too, where the service does not set it: for pods whose replies leave by another
    /// way. Without effect in mode dsr
    #[arg(
        id = "masquerade-external",
        long,
        value_name = "BOOL",
        default_value_t,
        hide_default_value = true
    )]
    masquerade_external: Switch,

    #[command(flatten)]
    pub(crate) dsr: DsrArgs,

    /// A range of addresses of this node's pods; may be given several times, for both families
    #[arg(long = "pod-cidr", value_name = "CIDR", value_parser = cidr)]
    pub(crate) pod_cidrs: Vec<IpNet>,
}

impl NodeArgs {
    /// Returns the forwarding of packets from outside to backends on other nodes, where the service does not set it.
    pub(crate) const fn forwarding(&self) -> Forwarding {
        match self.forwarding {
            Way::Snat => Forwarding::Snat,
            Way::Dsr => Forwarding::Dsr,
        }
    }

    /// The renderer's settings.
    pub(crate) fn render_options(&self) -> anyhow::Result<RenderOptions> {
        let Self {
            node_ips,
            local_backend_weight,
            selection,
            forwarding: _,
            masquerade_external,
            dsr: _,
            pod_cidrs: _,
        } = self;
        Ok(RenderOptions {
            node_ips: node_ips.iter().copied().collect(),
            host_addresses: host_addresses().context("cannot read the addresses of this host")?,
            balancing: Balancing {
                local_backend_weight: *local_backend_weight,
                external_selection: selection.external(),
                maglev_entries: selection.maglev_entries(),
                forwarding: self.forwarding(),
                masquerade: masquerade_external.is_on(),
            },
        })
    }
}
