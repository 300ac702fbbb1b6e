//! Reading what the programs count.

use std::fmt;

use aya::maps::{IterableMap as _, Map, MapData, MapError, PerCpuArray};
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

    /// Makes the counters those of `before`, as far as both have them. A counter keeps its index for
    /// ever, and no program counts here yet.
    ///
    /// # Errors
    ///
    /// If `before` is another kind of table, or the kernel refuses.
    pub fn carry_over(&mut self, before: MapData) -> Result<(), MapError> {
        let before = PerCpuArray::<_, u64>::try_from(Map::PerCpuArray(before))?;
        for index in 0..before.len().min(self.0.len()) {
            self.0.set(index, before.get(&index, 0)?, 0)?;
        }
        Ok(())
    }

    /// The table.
    pub fn table(&self) -> &MapData {
        self.0.map()
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
