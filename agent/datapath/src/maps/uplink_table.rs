//! The interfaces that have the XDP program, for that program.

use std::collections::BTreeMap;

use aya::{
    Ebpf,
    maps::{HashMap, MapData, MapError},
};
use shunt_common::{Uplink, registry};

use crate::{error::DatapathError, maps::object_maps, sys::raw::Raw};

/// The table of them, by index.
#[derive(Debug)]
pub(crate) struct UplinkTable(HashMap<MapData, u32, Raw<Uplink>>);

impl UplinkTable {
    /// The object's table.
    pub(crate) fn take(ebpf: &mut Ebpf) -> Result<Self, DatapathError> {
        object_maps::take(ebpf, registry::UPLINKS).map(Self)
    }

    /// Makes `uplinks`, each with its link address, all that the table has.
    ///
    /// # Errors
    ///
    /// If the kernel refuses: the table may be full.
    pub(crate) fn set(&mut self, uplinks: &BTreeMap<u32, [u8; 6]>) -> Result<(), MapError> {
        let before = self.0.iter().collect::<Result<BTreeMap<_, _>, _>>()?;
        for index in before.keys().filter(|index| !uplinks.contains_key(index)) {
            self.0.remove(index)?;
        }
        for (index, address) in uplinks {
            let uplink = Uplink::new(*address);
            if before.get(index).map(|Raw(known)| *known) != Some(uplink) {
                self.0.insert(index, Raw(uplink), 0)?;
            }
        }
        Ok(())
    }
}
