//! The roles of interfaces, for the programs.

use std::collections::BTreeSet;

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use shunt_common::{InterfaceRole, registry};

use crate::{error::DatapathError, maps::object_maps, sys::raw::Raw};

/// The table of [`InterfaceRole`]s.
#[derive(Debug)]
pub(crate) struct InterfaceTable(HashMap<MapData, Raw<InterfaceRole>, u32>);

impl InterfaceTable {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        object_maps::take(ebpf, registry::INTERFACES).map(Self)
    }

    /// Gives the role to these interfaces, by index, and takes it from all others.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the table may be full.
    pub(crate) fn set(
        &mut self,
        role: fn(u32) -> InterfaceRole,
        interfaces: &BTreeSet<u32>,
    ) -> Result<(), MapError> {
        let keys: Vec<Raw<InterfaceRole>> = self.0.keys().collect::<Result<_, _>>()?;
        let before: BTreeSet<InterfaceRole> = keys
            .into_iter()
            .map(|Raw(key)| key)
            .filter(|key| *key == role(key.interface))
            .collect();
        let wanted: BTreeSet<InterfaceRole> = interfaces.iter().map(|index| role(*index)).collect();
        for gone in before.difference(&wanted) {
            self.0.remove(&Raw(*gone))?;
        }
        for new in wanted.difference(&before) {
            self.0.insert(Raw(*new), 0, 0)?;
        }
        Ok(())
    }
}
