//! The address families that are translated.

use std::path::Path;

use clap::{Args, ValueEnum};
use shunt_datapath::Families;

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum IpFamily {
    /// IPv4
    Ipv4,
    /// IPv6
    Ipv6,
}

/// Families that are translated.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "This node")]
pub(crate) struct FamilyArgs {
    /// The address families that are translated, separated by commas; the tables of another take
    /// no memory [default: ipv4, and ipv6 if this host has it]
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
