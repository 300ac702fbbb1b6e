//! What becomes of segments of connections that the programs do not know.

use aya::Ebpf;
use shunt_common::registry;

use crate::{error::DatapathError, maps::kernel_tables, sys::shared_array::SharedArray};

/// Says what becomes of packets to frontends that are of no connection that the programs know, and that
/// begin none. It holds at once, and for as long as the programs do.
#[derive(Debug)]
pub struct UnknownConnections(SharedArray<u32>);

impl UnknownConnections {
    /// Over the object's table.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        kernel_tables::shared(ebpf, registry::UNKNOWN_CONNECTIONS).map(Self)
    }

    /// Leaves them to the stack, which may know them (`true`); or opens a connection, for the case
    /// that the table of connections was lost.
    pub fn leave_to_stack(&mut self, leave: bool) {
        self.0.write(0, leave.into());
    }
}
