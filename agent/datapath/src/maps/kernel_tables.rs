//! The kernel's tables of one family: a hash through system calls, arrays through memory.

use std::{
    io::{self, ErrorKind},
    os::fd::AsFd as _,
};

use aya::{
    Ebpf,
    maps::{HashMap, IterableMap as _, LpmTrie, MapData, MapError, lpm_trie::Key},
};
use shunt_common::{Backend, BackendConnections, Cell, FrontendKey, Slot, SourceRange};
use tracing::warn;

use crate::{
    error::{DatapathError, TableError},
    maps::{
        address_filter::AddressFilter,
        family::FromIp,
        object_maps::{removed, shared, take},
        tables::{Capacity, Tables},
        variables::Variables,
    },
    sys::{
        batch::{self, Refused},
        grace,
        raw::Raw,
        shared_array::SharedArray,
    },
};

/// The tables of one family in the kernel.
#[derive(Debug)]
pub(crate) struct KernelTables<F: FromIp> {
    frontends: HashMap<MapData, Raw<FrontendKey<F>>, u32>,
    cells: SharedArray<u64>,
    slots: SharedArray<Slot>,
    backends: SharedArray<Backend<F>>,
    backend_connections: SharedArray<u64>,
    source_ranges: LpmTrie<MapData, Raw<SourceRange<F>>, u32>,
    filter: AddressFilter<F>,
    variables: Variables,
}

impl<F: FromIp> KernelTables<F> {
    /// Takes the family's tables out of the loaded object.
    pub(crate) fn take(ebpf: &mut Ebpf, variables: Variables) -> Result<Self, DatapathError> {
        let maps = F::MAPS;
        let mut filter = AddressFilter::open(ebpf)?;
        let name = maps.frontends.name;
        let frontends: HashMap<_, Raw<FrontendKey<F>>, u32> = take(ebpf, maps.frontends)?;
        for key in frontends.keys() {
            let Raw(key) = key.map_err(|source| DatapathError::Map { name, source })?;
            filter.add_frontend(&key.address);
            variables.add_port(key.port);
        }
        let backends: SharedArray<Backend<F>> = shared(ebpf, maps.backends)?;
        let mut backend_connections = shared(ebpf, maps.backend_connections)?;
        forget_others(&backends, &mut backend_connections);
        Ok(Self {
            filter,
            variables,
            frontends,
            cells: shared(ebpf, maps.cells)?,
            slots: shared(ebpf, maps.slots)?,
            backends,
            backend_connections,
            source_ranges: take(ebpf, maps.source_ranges)?,
        })
    }
}

/// Has what was counted of who had a backend's index before be no count of the backend's: an earlier version may not
/// have known the table.
fn forget_others<F: FromIp>(backends: &SharedArray<Backend<F>>, counts: &mut SharedArray<u64>) {
    for index in 0..backends.len().min(counts.len()) {
        let generation = backends.read(index).generation;
        if !BackendConnections(counts.read(index)).is_of(generation) {
            counts.store(index, BackendConnections::none(generation).0);
        }
    }
}

impl<F: FromIp> Tables<F> for KernelTables<F> {
    fn capacity(&self) -> Capacity {
        Capacity {
            frontends: self.cells.len(),
            slots: self.slots.len(),
            backends: self.backends.len(),
        }
    }

    fn frontends(&self) -> Result<Vec<(FrontendKey<F>, u32)>, TableError> {
        // While someone else writes, the walk may begin again: it ends all the same.
        let limit = 2 * self.cells.len() as usize;
        self.frontends
            .iter()
            .take(limit)
            .map(|entry| entry.map(|(Raw(key), index)| (key, index)))
            .collect::<Result<_, _>>()
            .map_err(|error| kernel_error("reading the frontends table", error))
    }

    fn frontend(&self, key: FrontendKey<F>) -> Result<Option<u32>, TableError> {
        match self.frontends.get(&Raw(key), 0) {
            Ok(index) => Ok(Some(index)),
            Err(MapError::KeyNotFound) => Ok(None),
            Err(error) => Err(kernel_error("reading the frontends table", error)),
        }
    }

    fn cell(&self, frontend: u32) -> Cell {
        Cell::from_word(self.cells.read(frontend))
    }

    fn slot(&self, index: u32) -> Slot {
        self.slots.read(index)
    }

    fn backend(&self, index: u32) -> Backend<F> {
        self.backends.read(index)
    }

    fn connections(&self, index: u32) -> u64 {
        let generation = self.backends.read(index).generation;
        BackendConnections(self.backend_connections.read(index)).of(generation)
    }

    fn write_backend(&mut self, index: u32, backend: Backend<F>) {
        let generation = backend.generation;
        if self.backends.read(index).generation != generation {
            let none = BackendConnections::none(generation);
            self.backend_connections.store(index, none.0);
        }
        self.backends.write(index, backend);
    }

    fn write_slots(&mut self, offset: u32, slots: &[Slot]) {
        for (slot, index) in slots.iter().zip(offset..) {
            self.slots.write(index, *slot);
        }
    }

    fn write_cell(&mut self, frontend: u32, cell: Cell) {
        // It may have connections of before it was in that mode.
        if cell.has(Cell::DSR) && !self.cell(frontend).has(Cell::DSR) {
            self.variables.note_tracked();
        }
        self.cells.store(frontend, cell.word());
    }

    fn insert_frontends(&mut self, new: &[(FrontendKey<F>, u32)]) -> Result<(), TableError> {
        // Packets look there first.
        for (key, index) in new {
            self.filter.add_frontend(&key.address);
            self.variables.add_port(key.port);
            // As one of the same address may have, which is gone.
            if self.cell(*index).has(Cell::DSR) {
                self.variables.note_tracked();
            }
        }
        let (keys, indexes): (Vec<_>, Vec<u32>) = new.iter().copied().unzip();
        batch::insert(self.frontends.map().fd().as_fd(), &keys, &indexes).map_err(
            |Refused { inserted, source }| {
                for key in &keys[..inserted] {
                    if let Err(error) = self.remove_frontend(*key) {
                        warn!(%error, "a frontend that was not to be stays in the table");
                    }
                }
                TableError::Kernel {
                    call: "inserting into the frontends table",
                    source,
                }
            },
        )
    }

    fn remove_frontend(&mut self, key: FrontendKey<F>) -> Result<(), TableError> {
        removed(self.frontends.remove(&Raw(key)))
            .map_err(|error| kernel_error("removing from the frontends table", error))
    }

    fn source_ranges(&self) -> Result<Vec<(u32, SourceRange<F>)>, TableError> {
        self.source_ranges
            .keys()
            .map(|key| {
                key.map(|key| {
                    let Raw(range) = key.data();
                    (key.prefix_len(), range)
                })
            })
            .collect::<Result<_, _>>()
            .map_err(|error| kernel_error("reading the source ranges table", error))
    }

    fn insert_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        self.source_ranges
            .insert(&Key::new(bits, Raw(range)), 0, 0)
            .map_err(|error| kernel_error("inserting into the source ranges table", error))
    }

    fn remove_source_range(&mut self, bits: u32, range: SourceRange<F>) -> Result<(), TableError> {
        match self.source_ranges.remove(&Key::new(bits, Raw(range))) {
            Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => {
                Ok(())
            }
            result => {
                result.map_err(|error| kernel_error("removing from the source ranges table", error))
            }
        }
    }

    fn wait_for_readers(&mut self) -> Result<(), TableError> {
        grace::wait_for_readers().map_err(|source| TableError::Kernel {
            call: "waiting for a grace period",
            source,
        })
    }
}

fn kernel_error(call: &'static str, error: MapError) -> TableError {
    let source = match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    };
    TableError::Kernel { call, source }
}
