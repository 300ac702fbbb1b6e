//! The name of a chain.

use std::fmt;

use crate::host::nfnetlink::family_name;

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
        let family = family_name(*family);
        write!(f, "chain {name} of {family} {table}")
    }
}
