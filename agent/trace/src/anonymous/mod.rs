//! Dumps with other addresses and names in place of the node's.
//!
//! The replacement of an address depends on a key that is not kept: it has as many of its first bits in common
//! with another one's as the two addresses have (J. Xu and others, Crypto-PAn, 2002), so ranges and routes mean
//! the same. What is the same everywhere stays: loopback, link-local and multicast ranges, and in which of the
//! private ranges an address is. Ports stay too.

mod connections;
mod key;
mod names;
mod network;
mod prefixes;
mod tables;

use std::io;

use shunt_common::connections::Seeds;

use crate::dump::{content::Node, record::Dump};

pub use key::Key;

use names::Names;
use prefixes::Addresses;

/// Why a dump cannot be made anonymous.
#[derive(Debug, thiserror::Error)]
pub enum AnonymousError {
    /// A table is not as this version knows it.
    #[error("{0} is a table of another version of shunt, whose addresses are not known")]
    Unknown(String),
    /// There are no random bytes.
    #[error("there is no key: {0}")]
    NoKey(#[from] io::Error),
}

/// Replacements.
pub(crate) struct Replaced {
    pub(crate) addresses: Addresses,
    pub(crate) names: Names,
    /// Seeds of the tables of connections: by the node's own ones, one could compute tuples that share a home, and fill it.
    pub(crate) seeds: Seeds,
}

/// The dump with other addresses and names, and those of interfaces, services and ports.
///
/// # Errors
///
/// If a table is not known, so that addresses might be left in it.
pub fn anonymous(dump: &Dump, key: &Key) -> Result<Dump, AnonymousError> {
    let mut replaced = Replaced {
        addresses: Addresses::new(key),
        names: Names::new(key),
        seeds: key.seeds(),
    };
    let mut new = Dump::new(Node {
        anonymous: true,
        ..dump.node.clone()
    });
    replaced.network(dump, &mut new);
    replaced.tables(dump, &mut new)?;
    Ok(new)
}

#[cfg(test)]
mod tests;
