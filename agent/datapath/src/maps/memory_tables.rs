//! Tables in plain memory: what everything above the kernel is tested on, without root.

use std::{
    cell,
    collections::{HashMap, HashSet},
    io,
};

use shunt_common::{Backend, Cell, Family, FrontendKey, Slot, SourceRange};

use crate::{
    error::TableError,
    maps::tables::{Capacity, Tables},
};

/// The tables of one family, as packets would see them.
#[derive(Debug, Clone)]
pub struct MemoryTables<F: Family> {
    /// Frontend to index.
    pub frontends: HashMap<FrontendKey<F>, u32>,
    /// Cells by frontend index.
    pub cells: Vec<Cell>,
    /// Slots of all slices.
    pub slots: Vec<Slot>,
    /// Backends by index.
    pub backends: Vec<Backend<F>>,
    /// Source ranges: prefix length in bits, and the range.
    pub source_ranges: HashSet<(u32, SourceRange<F>)>,
    /// Number of entries that were read.
    pub reads: cell::Cell<usize>,
    /// Number of writes.
    pub writes: usize,
    /// Number of waits for a grace period.
    pub waits: usize,
    /// True if the next waits fail.
    pub refuses_to_wait: bool,
}

impl<F: Family> MemoryTables<F> {
    /// Empty tables of these sizes.
    pub fn new(capacity: Capacity) -> Self {
        let Capacity {
            frontends,
            slots,
            backends,
        } = capacity;
        Self {
            frontends: HashMap::with_capacity(frontends as usize),
            cells: vec![Cell::default(); frontends as usize],
            slots: vec![Slot::default(); slots as usize],
            backends: vec![bytemuck::Zeroable::zeroed(); backends as usize],
            source_ranges: HashSet::new(),
            reads: cell::Cell::default(),
            writes: 0,
            waits: 0,
            refuses_to_wait: false,
        }
    }

    fn count_reads(&self, entries: usize) {
        self.reads.set(self.reads.get() + entries);
    }

    /// The backends that a new connection to `key` may get, each with its weight: what a packet
    /// would see. `None` if there is no such frontend, or if it points at nothing that exists.
    pub fn resolve(&self, key: FrontendKey<F>) -> Option<Vec<Backend<F>>> {
        let cell = self.cells.get(*self.frontends.get(&key)? as usize)?;
        let start = cell.offset() as usize;
        let slots = self.slots.get(start..start + cell.count() as usize)?;
        slots
            .iter()
            .map(|slot| self.backends.get(slot.backend as usize).copied())
            .collect()
    }
}

impl<F: Family> Tables<F> for MemoryTables<F> {
    fn capacity(&self) -> Capacity {
        Capacity {
            frontends: self.cells.len() as u32,
            slots: self.slots.len() as u32,
            backends: self.backends.len() as u32,
        }
    }

    fn frontends(&self) -> Result<Vec<(FrontendKey<F>, u32)>, TableError> {
        self.count_reads(self.frontends.len());
        let frontends = self.frontends.iter();
        Ok(frontends.map(|(key, index)| (*key, *index)).collect())
    }

    fn frontend(&self, key: FrontendKey<F>) -> Result<Option<u32>, TableError> {
        self.count_reads(1);
        Ok(self.frontends.get(&key).copied())
    }

    fn cell(&self, frontend: u32) -> Cell {
        self.count_reads(1);
        self.cells[frontend as usize]
    }

    fn slot(&self, index: u32) -> Slot {
        self.count_reads(1);
        self.slots[index as usize]
    }

    fn backend(&self, index: u32) -> Backend<F> {
        self.count_reads(1);
        self.backends[index as usize]
    }

    fn connections(&self, _: u32) -> u64 {
        // No packet comes here.
        0
    }

    fn write_backend(&mut self, index: u32, backend: Backend<F>) {
        self.backends[index as usize] = backend;
        self.writes += 1;
    }

    fn write_slots(&mut self, offset: u32, slots: &[Slot]) {
        for (slot, index) in slots.iter().zip(offset as usize..) {
            self.slots[index] = *slot;
            self.writes += 1;
        }
    }

    fn write_cell(&mut self, frontend: u32, cell: Cell) {
        self.cells[frontend as usize] = cell;
        self.writes += 1;
    }

    fn insert_frontends(&mut self, new: &[(FrontendKey<F>, u32)]) -> Result<(), TableError> {
        // As the kernel does, with the entries of every writer.
        if self.frontends.len() + new.len() > self.cells.len() {
            return Err(TableError::Kernel {
                call: "inserting into the frontends table",
                source: io::ErrorKind::ArgumentListTooLong.into(),
            });
        }
        self.frontends.extend(new.iter().copied());
        self.writes += new.len();
        Ok(())
    }

    fn remove_frontend(&mut self, key: FrontendKey<F>) -> Result<(), TableError> {
        self.frontends.remove(&key);
        self.writes += 1;
        Ok(())
    }

    fn source_ranges(&self) -> Result<Vec<(u32, SourceRange<F>)>, TableError> {
        self.count_reads(self.source_ranges.len());
        Ok(self.source_ranges.iter().copied().collect())
    }

    fn insert_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        self.source_ranges.insert((bits, range));
        self.writes += 1;
        Ok(())
    }

    fn remove_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        self.source_ranges.remove(&(bits, range));
        self.writes += 1;
        Ok(())
    }

    fn wait_for_readers(&mut self) -> Result<(), TableError> {
        if self.refuses_to_wait {
            return Err(TableError::Kernel {
                call: "waiting for a grace period",
                source: io::ErrorKind::Interrupted.into(),
            });
        }
        self.waits += 1;
        Ok(())
    }
}
