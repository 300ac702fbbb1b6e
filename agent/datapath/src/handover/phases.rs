//! The phase that the programs are in.

use aya::Ebpf;
use shunt_common::registry::handover::{PHASE, Phase};

use crate::{error::DatapathError, maps::object_maps, sys::shared_array::SharedArray};

/// The word that this agent's programs read.
#[derive(Debug)]
pub(crate) struct Phases(SharedArray<u32>);

impl Phases {
    /// The word of the loaded object, which is [`Phase::None`].
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        object_maps::shared(ebpf, PHASE).map(Self)
    }

    /// Begins a phase; a program that runs may be in the one before until a grace period is over.
    pub(crate) fn begin(&mut self, phase: Phase) {
        self.0.write(0, phase as u32);
    }
}
