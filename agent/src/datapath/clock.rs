//! The clock that conntrack entries and affinities are dated by.

use aya::Ebpf;

use super::{DatapathError, kernel_tables, shared_array::SharedArray};

/// The name of its table, of one entry for both families.
const TABLE: &str = "CLOCK";

/// Seconds that agents have counted.
#[derive(Debug)]
pub(super) struct Clock(SharedArray<u32>);

impl Clock {
    /// The clock of the loaded object.
    pub(super) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        kernel_tables::shared(ebpf, TABLE).map(Self)
    }

    /// The time in seconds, which wraps around.
    pub(super) fn now(&self) -> u32 {
        self.0.read(0)
    }

    /// Lets `seconds` pass.
    pub(super) fn advance(&mut self, seconds: u32) {
        self.0.write(0, self.now().wrapping_add(seconds));
    }
}
