//! The clock that conntrack entries and affinities are dated by.

use aya::Ebpf;
use shunt_common::registry;

use crate::{error::DatapathError, maps::kernel_tables, sys::shared_array::SharedArray};

/// Seconds that agents have counted.
#[derive(Debug)]
pub(crate) struct Clock(SharedArray<u32>);

impl Clock {
    /// The clock of the loaded object.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        kernel_tables::shared(ebpf, registry::CLOCK).map(Self)
    }

    /// The time in seconds, which wraps around.
    pub(crate) fn now(&self) -> u32 {
        self.0.read(0)
    }

    /// Lets `seconds` pass.
    pub(crate) fn advance(&mut self, seconds: u32) {
        self.0.write(0, self.now().wrapping_add(seconds));
    }
}
