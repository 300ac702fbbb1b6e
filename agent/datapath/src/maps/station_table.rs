//! The interfaces at which frames for other stations are left alone, for the programs.

use std::collections::BTreeSet;

use aya::Ebpf;
use shunt_common::{StationPlace, registry};

use crate::{error::DatapathError, maps::object_maps, sys::shared_array::SharedArray};

/// The table of them: a bit each.
#[derive(Debug)]
pub(crate) struct StationTable(SharedArray<u64>);

impl StationTable {
    /// The object's table.
    pub(crate) fn take(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        object_maps::shared(ebpf, registry::STATIONS).map(Self)
    }

    /// Makes `interfaces` all that the table has. One without a place is left out.
    pub(crate) fn set(&mut self, interfaces: &BTreeSet<u32>) {
        let mut after = vec![0; StationPlace::WORDS];
        for place in interfaces.iter().copied().filter_map(StationPlace::of) {
            if let Some(word) = after.get_mut(place.word as usize) {
                *word |= place.mask;
            }
        }
        for (index, word) in (0..self.0.len()).zip(after) {
            if self.0.read(index) != word {
                self.0.store(index, word);
            }
        }
    }
}
