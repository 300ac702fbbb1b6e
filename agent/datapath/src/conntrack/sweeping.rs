//! The connections of both families, for whoever keeps them: their clock, and what becomes of those
//! that are over.

use std::io;

use aya::Ebpf;
use shunt_common::{V4, V6};

use crate::{
    conntrack::{
        clock::Clock, conntrack_table::ConntrackTable, early_drops::EarlyDrops, lifetime::Timeouts,
        swept::Swept,
    },
    error::DatapathError,
    maps::{family::FromIp, kernel_tables},
};

/// The conntrack tables and the clock that their entries are dated by.
#[derive(Debug)]
pub struct Conntrack {
    clock: Clock,
    pub(crate) v4: ConntrackTable<V4>,
    pub(crate) v6: ConntrackTable<V6>,
}

impl Conntrack {
    /// Takes the tables out of the loaded object; what is removed for room is counted in
    /// `early_drops`.
    pub(crate) fn take(ebpf: &mut Ebpf, early_drops: &EarlyDrops) -> Result<Self, DatapathError> {
        Ok(Self {
            clock: Clock::open(ebpf)?,
            v4: take(ebpf, early_drops)?,
            v6: take(ebpf, early_drops)?,
        })
    }

    /// Lets `seconds` pass on the clock. It stands still while no agent runs, so that no
    /// connection ages for want of one.
    pub fn advance(&mut self, seconds: u32) {
        self.clock.advance(seconds);
    }

    /// The time in seconds.
    pub(crate) fn now(&self) -> u32 {
        self.clock.now()
    }

    /// Whether no connection is remembered.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.v4.is_empty()? && self.v6.is_empty()?)
    }

    /// Removes the connections that have been silent for longer than `timeouts` say, both of
    /// their entries. Where a table is still crowded, others make room, as `docs/conntrack.md`
    /// says.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read or remove; what was removed until then stays so.
    pub fn sweep(&mut self, timeouts: &Timeouts) -> io::Result<Swept> {
        let now = self.now();
        let mut swept = self.v4.sweep(now, timeouts)?;
        swept += self.v6.sweep(now, timeouts)?;
        Ok(swept)
    }
}

/// Takes a family's table out of the object.
fn take<F: FromIp>(
    ebpf: &mut Ebpf,
    early_drops: &EarlyDrops,
) -> Result<ConntrackTable<F>, DatapathError> {
    let map = F::MAPS.conntrack;
    let entries = kernel_tables::take(ebpf, map)?;
    ConntrackTable::new(entries, early_drops.clone()).map_err(|source| DatapathError::Map {
        name: map.name,
        source,
    })
}
