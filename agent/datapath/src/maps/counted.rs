//! Tables that count how often they are written.

use shunt_common::{Backend, Cell, Family, FrontendKey, Slot, SourceRange};

use crate::{
    error::TableError,
    maps::tables::{Capacity, Tables},
};

/// Counts the writes on their way to `T`; each slot and each frontend counts as one.
#[derive(Debug)]
pub(crate) struct Counted<T> {
    pub(crate) tables: T,
    writes: u64,
    departures: u64,
}

impl<T> Counted<T> {
    /// No write yet.
    pub(crate) const fn new(tables: T) -> Self {
        Self {
            tables,
            writes: 0,
            departures: 0,
        }
    }

    /// Counts a generation that has changed because its backend left.
    pub(crate) const fn count_departure(&mut self) {
        self.departures += 1;
    }

    /// Returns the number of departures.
    pub(crate) const fn departures(&self) -> u64 {
        self.departures
    }

    /// Returns the number of writes.
    pub(crate) const fn writes(&self) -> u64 {
        self.writes
    }
}

impl<F: Family, T: Tables<F>> Tables<F> for Counted<T> {
    fn capacity(&self) -> Capacity {
        self.tables.capacity()
    }

    fn frontends(&self) -> Result<Vec<(FrontendKey<F>, u32)>, TableError> {
        self.tables.frontends()
    }

    fn frontend(&self, key: FrontendKey<F>) -> Result<Option<u32>, TableError> {
        self.tables.frontend(key)
    }

    fn cell(&self, frontend: u32) -> Cell {
        self.tables.cell(frontend)
    }

    fn slot(&self, index: u32) -> Slot {
        self.tables.slot(index)
    }

    fn backend(&self, index: u32) -> Backend<F> {
        self.tables.backend(index)
    }

    fn connections(&self, index: u32) -> u64 {
        self.tables.connections(index)
    }

    fn write_backend(&mut self, index: u32, backend: Backend<F>) {
        self.writes += 1;
        self.tables.write_backend(index, backend);
    }

    fn write_slots(&mut self, offset: u32, slots: &[Slot]) {
        self.writes += slots.len() as u64;
        self.tables.write_slots(offset, slots);
    }

    fn write_cell(&mut self, frontend: u32, cell: Cell) {
        self.writes += 1;
        self.tables.write_cell(frontend, cell);
    }

    fn insert_frontends(&mut self, new: &[(FrontendKey<F>, u32)]) -> Result<(), TableError> {
        self.writes += new.len() as u64;
        self.tables.insert_frontends(new)
    }

    fn remove_frontend(&mut self, key: FrontendKey<F>) -> Result<(), TableError> {
        self.writes += 1;
        self.tables.remove_frontend(key)
    }

    fn source_ranges(&self) -> Result<Vec<(u32, SourceRange<F>)>, TableError> {
        self.tables.source_ranges()
    }

    fn insert_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        self.writes += 1;
        self.tables.insert_source_range(bits, range)
    }

    fn remove_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        self.writes += 1;
        self.tables.remove_source_range(bits, range)
    }

    fn wait_for_readers(&mut self) -> Result<(), TableError> {
        self.tables.wait_for_readers()
    }
}
