//! Reading what the programs count.

use std::fmt;

use aya::maps::{MapData, MapError, PerCpuArray};
use shunt_common::Counter;

/// The programs' counters.
pub struct Counters(PerCpuArray<MapData, u64>);

impl fmt::Debug for Counters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Counters").finish_non_exhaustive()
    }
}

impl Counters {
    /// Over the table of counters.
    pub const fn new(table: PerCpuArray<MapData, u64>) -> Self {
        Self(table)
    }

    /// Each counter with the packets that it counted on all CPUs since the programs were loaded.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read the table.
    pub fn read(&self) -> Result<Vec<(Counter, u64)>, MapError> {
        Counter::ALL
            .into_iter()
            .map(|counter| Ok((counter, self.get(counter)?)))
            .collect()
    }

    /// The packets of one counter.
    ///
    /// # Errors
    ///
    /// If the kernel refuses to read the table.
    pub fn get(&self, counter: Counter) -> Result<u64, MapError> {
        let values = self.0.get(&(counter as u32), 0)?;
        Ok(values.iter().sum())
    }
}
