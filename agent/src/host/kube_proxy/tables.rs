//! kube-proxy's nftables tables, and chains of its iptables mode where nftables has them.

use std::io;

use crate::host::nfnetlink::{Family, NFTABLES, command, exists, text};

/// The name of kube-proxy's table of each family.
pub(in crate::host) const TABLE: &str = "kube-proxy";

/// `NFT_MSG_GETTABLE`, `NFT_MSG_DELTABLE` and `NFT_MSG_GETCHAIN` of linux/netfilter/nf_tables.h.
const GET_TABLE: u8 = 1;
const DELETE_TABLE: u8 = 2;
const GET_CHAIN: u8 = 4;

/// `NFTA_TABLE_NAME`, `NFTA_CHAIN_TABLE` and `NFTA_CHAIN_NAME`.
const TABLE_NAME: u16 = 1;
const CHAIN_TABLE: u16 = 1;
const CHAIN_NAME: u16 = 3;

/// Returns whether kube-proxy's table of this family is there.
pub(super) fn has_table(family: Family) -> io::Result<bool> {
    exists(NFTABLES, GET_TABLE, family, &text(TABLE_NAME, TABLE))
}

/// Returns whether the table `nat` of `iptables-nft` has the chain.
pub(super) fn has_nat_chain(family: Family, chain: &str) -> io::Result<bool> {
    let rest = [text(CHAIN_TABLE, "nat"), text(CHAIN_NAME, chain)];
    exists(NFTABLES, GET_CHAIN, family, &rest.concat())
}

/// Deletes kube-proxy's table of this family with all that is in it.
pub(super) fn delete(family: Family) -> io::Result<()> {
    command(DELETE_TABLE, family, &text(TABLE_NAME, TABLE))
}
