//! Tables that remember what packets would have seen.

use std::{collections::BTreeMap, io, net::IpAddr};

use shunt_common::{Backend, Cell, FrontendKey, Slot, SourceRange, V4};

use crate::{
    error::TableError,
    maps::{
        family::FromIp,
        memory_tables::MemoryTables,
        tables::{Capacity, Tables},
    },
};

/// Packets' view of each frontend: its backends by (address, weight) and the cell's flags.
pub(super) type View = BTreeMap<u16, (Vec<(IpAddr, u32)>, u16)>;

/// Tables that remember what packets would have seen after every write, that refuse an insert on
/// demand, and that take no more writes after some, as if the agent had been killed there.
pub(super) struct Watched {
    pub(super) inner: MemoryTables<V4>,
    pub(super) views: Vec<View>,
    /// The tables themselves after every write.
    pub(super) states: Vec<MemoryTables<V4>>,
    pub(super) inserts_left: usize,
    pub(super) writes_left: usize,
}

impl Watched {
    pub(super) fn new(capacity: Capacity) -> Self {
        Self {
            inner: MemoryTables::new(capacity),
            views: Vec::new(),
            states: Vec::new(),
            inserts_left: usize::MAX,
            writes_left: usize::MAX,
        }
    }

    pub(super) fn view(&self) -> View {
        let frontends = self.inner.frontends.iter();
        frontends
            .map(|(key, index)| {
                let backends = self.inner.resolve(*key).unwrap_or_default();
                let backends = backends
                    .iter()
                    .map(|b| (V4::ip(b.address), b.weight))
                    .collect();
                let cell = self.inner.cells.get(*index as usize);
                let flags = cell.map_or(0, |cell| cell.flags());
                (u16::from_be(key.port), (backends, flags))
            })
            .collect()
    }

    /// Makes one write, unless the agent is dead.
    fn write(&mut self, write: impl FnOnce(&mut MemoryTables<V4>)) {
        if self.writes_left > 0 {
            self.writes_left -= 1;
            write(&mut self.inner);
            self.views.push(self.view());
            self.states.push(self.inner.clone());
        }
    }
}

impl Tables<V4> for Watched {
    fn capacity(&self) -> Capacity {
        self.inner.capacity()
    }

    fn frontends(&self) -> Result<Vec<(FrontendKey<V4>, u32)>, TableError> {
        self.inner.frontends()
    }

    fn frontend(&self, key: FrontendKey<V4>) -> Result<Option<u32>, TableError> {
        self.inner.frontend(key)
    }

    fn cell(&self, frontend: u32) -> Cell {
        self.inner.cell(frontend)
    }

    fn slot(&self, index: u32) -> Slot {
        self.inner.slot(index)
    }

    fn backend(&self, index: u32) -> Backend<V4> {
        self.inner.backend(index)
    }

    fn connections(&self, index: u32) -> u64 {
        self.inner.connections(index)
    }

    fn write_backend(&mut self, index: u32, backend: Backend<V4>) {
        self.write(|tables| tables.write_backend(index, backend));
    }

    fn write_slots(&mut self, offset: u32, slots: &[Slot]) {
        for (slot, offset) in slots.iter().zip(offset..) {
            self.write(|tables| tables.write_slots(offset, &[*slot]));
        }
    }

    fn write_cell(&mut self, frontend: u32, cell: Cell) {
        self.write(|tables| tables.write_cell(frontend, cell));
    }

    fn insert_frontends(&mut self, new: &[(FrontendKey<V4>, u32)]) -> Result<(), TableError> {
        for (place, (key, frontend)) in new.iter().enumerate() {
            if self.inserts_left == 0 {
                for (key, _) in &new[..place] {
                    self.remove_frontend(*key)?;
                }
                return Err(TableError::Kernel {
                    call: "inserting into the frontends table",
                    source: io::ErrorKind::OutOfMemory.into(),
                });
            }
            self.inserts_left -= 1;
            self.write(|tables| {
                tables.frontends.insert(*key, *frontend);
            });
        }
        Ok(())
    }

    fn remove_frontend(&mut self, key: FrontendKey<V4>) -> Result<(), TableError> {
        self.write(|tables| {
            tables.frontends.remove(&key);
        });
        Ok(())
    }

    fn source_ranges(&self) -> Result<Vec<(u32, SourceRange<V4>)>, TableError> {
        self.inner.source_ranges()
    }

    fn insert_source_range(&mut self, bits: u32, range: SourceRange<V4>) -> Result<(), TableError> {
        self.write(|tables| tables.insert_source_range(bits, range).unwrap());
        Ok(())
    }

    fn remove_source_range(&mut self, bits: u32, range: SourceRange<V4>) -> Result<(), TableError> {
        self.write(|tables| tables.remove_source_range(bits, range).unwrap());
        Ok(())
    }

    fn wait_for_readers(&mut self) -> Result<(), TableError> {
        Ok(())
    }
}
