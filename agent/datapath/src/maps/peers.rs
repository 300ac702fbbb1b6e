//! The interfaces to whose other ends the programs may hand packets (`--redirect`).
//!
//! `bpf_redirect_peer` gives a packet to the other end of a veth or netkit pair, and loses it if there is
//! no such end or if it is in this network namespace.

use std::collections::BTreeSet;

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use shunt_common::registry;
use tracing::warn;

use crate::{error::DatapathError, maps::object_maps};

/// The table of these interfaces, by index.
#[derive(Debug)]
pub(crate) struct Peers(HashMap<MapData, u32, u32>);

impl Peers {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        object_maps::take(ebpf, registry::PEERS).map(Self)
    }

    /// Makes `interfaces`, whose other ends are elsewhere, all that the table has.
    pub(crate) fn set(&mut self, interfaces: &BTreeSet<u32>) {
        if let Err(error) = self.try_set(interfaces) {
            // What is not in the table goes through the stack.
            warn!(%error, "some packets to pods go through the stack in spite of --redirect");
        }
    }

    fn try_set(&mut self, interfaces: &BTreeSet<u32>) -> Result<(), MapError> {
        let before: BTreeSet<u32> = self.0.keys().collect::<Result<_, _>>()?;
        for gone in before.difference(interfaces) {
            self.0.remove(gone)?;
        }
        for new in interfaces.difference(&before) {
            self.0.insert(new, 0, 0)?;
        }
        Ok(())
    }
}
