//! The source of connections that need another one.

use std::net::IpAddr;

use clap::Args;
use shunt_common::PortRange;

/// Source of connections from outside to backends on other nodes.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "SNAT")]
pub(crate) struct SnatArgs {
    /// The address of this node, one for each family, from which connections from outside go on
    /// to backends on other nodes, as long as an interface of the host has it or none of the
    /// node's own [default: the lowest of the node's own that the host has]
    #[arg(long = "snat-ip", value_name = "IP")]
    pub(crate) snat_ips: Vec<IpAddr>,

    /// The source ports that connections with such an address are given, and that the host's own
    /// connections must not use
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
