//! A set of interfaces, for the programs.

use std::collections::BTreeSet;

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use shunt_common::registry;

use crate::{error::DatapathError, maps::object_maps};

/// A table whose keys are the interfaces' indexes.
#[derive(Debug)]
pub(crate) struct InterfaceSet(HashMap<MapData, u32, u32>);

impl InterfaceSet {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf, map: registry::Map) -> Result<Self, DatapathError> {
        object_maps::take(ebpf, map).map(Self)
    }

    /// Makes `interfaces` all that the table has.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the table may be full.
    pub(crate) fn set(&mut self, interfaces: &BTreeSet<u32>) -> Result<(), MapError> {
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
