//! The interfaces that have the programs, for the programs.
//!
//! A packet that goes through the stack half translated is completed where it leaves by one of these.

use std::collections::BTreeSet;

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use shunt_common::registry;
use tracing::warn;

use crate::{error::DatapathError, maps::kernel_tables};

/// The table of these interfaces, by index.
#[derive(Debug)]
pub(crate) struct Attached(HashMap<MapData, u32, u32>);

impl Attached {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        kernel_tables::take(ebpf, registry::ATTACHED).map(Self)
    }

    /// Makes `interfaces` all that the table has.
    pub(crate) fn set(&mut self, interfaces: &BTreeSet<u32>) {
        if let Err(error) = self.try_set(interfaces) {
            // What would leave by an interface that is not in the table is forwarded past the stack.
            warn!(%error, "some packets are not fragmented, and their senders not told that a backend is unreachable");
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
