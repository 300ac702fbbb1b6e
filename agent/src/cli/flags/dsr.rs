//! Direct server return.

use clap::Args;
use ipnet::IpNet;

use crate::cli::flags::{cidr::cidr, switch::Switch};

/// Direct server return.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "DSR")]
#[command(mut_arg("dsr_lower_mss", Switch::flag))]
pub(crate) struct DsrArgs {
    /// Have backends of services with --forwarding dsr announce segments that fit into an envelope, so that TCP clients
    /// need no ICMP error for segments that do not
    #[arg(long, value_name = "BOOL", hide = true, default_value_t = Switch::ON)]
    pub(crate) dsr_lower_mss: Switch,

    /// Source of envelopes, instead of this node's address: each flow has its own address of the first range of its
    /// family, so that network cards spread flows over their queues. Envelopes of other nodes are taken off if they
    /// come from any of the ranges, so all nodes have to have the same
    #[arg(long = "dsr-source-range", value_name = "CIDR", value_parser = source_range)]
    pub(crate) dsr_source_ranges: Vec<IpNet>,
}

fn source_range(text: &str) -> Result<IpNet, String> {
    let range = cidr(text)?;
    if range.prefix_len() == range.max_prefix_len() {
        return Err(format!("{range} is one address, and tells no flows apart"));
    }
    let first = range.network();
    let is_wide = range.prefix_len() == 0;
    if is_wide || first.is_loopback() || first.is_multicast() || first.is_unspecified() {
        return Err(format!("packets may not come from all of {range}"));
    }
    Ok(range.trunc())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_has_more_than_one_address_and_only_such_as_packets_come_from() {
        for (text, range) in [
            ("172.16.0.0/12", "172.16.0.0/12"),
            ("172.16.3.4/12", "172.16.0.0/12"),
            ("fd00:1::/64", "fd00:1::/64"),
        ] {
            assert_eq!(source_range(text), Ok(range.parse().unwrap()));
        }
        for (text, reason) in [
            ("172.16.0.0", "the length of the prefix is missing"),
            ("172.16.0.1/32", "172.16.0.1/32 is one address"),
            ("fd00::1/128", "fd00::1/128 is one address"),
            ("0.0.0.0/0", "packets may not come from all of 0.0.0.0/0"),
            ("127.0.0.0/8", "packets may not come"),
            ("ff00::/8", "packets may not come"),
            ("::/64", "packets may not come"),
        ] {
            let error = source_range(text).unwrap_err();
            assert!(error.starts_with(reason), "{text}: {error}");
        }
    }
}
