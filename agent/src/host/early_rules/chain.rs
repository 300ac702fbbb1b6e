//! The name of a chain.

use std::fmt;

/// `NFPROTO_INET`, `NFPROTO_IPV4` and `NFPROTO_IPV6` of linux/netfilter.h.
pub(super) const INET: u8 = 1;
pub(super) const V4: u8 = 2;
pub(super) const V6: u8 = 10;

/// A chain of nftables, or of iptables where nftables has its rules.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Chain {
    /// Its table's family, an `NFPROTO_`.
    pub(super) family: u8,
    pub(super) table: String,
    pub(super) name: String,
}

impl fmt::Display for Chain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            family,
            table,
            name,
        } = self;
        let family = match *family {
            V4 => "ip",
            V6 => "ip6",
            _ => "inet",
        };
        write!(f, "chain {name} of {family} {table}")
    }
}
