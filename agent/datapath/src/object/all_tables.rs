//! All tables of the object, held so that other programs can be given them.

use std::{
    io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
};

use aya::{
    Ebpf,
    maps::{Map, MapData},
};
use shunt_common::registry;

use crate::{error::DatapathError, sys::kernel_object};

/// The tables by their names.
#[derive(Debug)]
pub(crate) struct AllTables(Vec<(&'static str, OwnedFd)>);

impl AllTables {
    /// The tables of an object none of whose maps has been taken out.
    pub(crate) fn of(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        let mut tables = Vec::new();
        for map in registry::maps() {
            let data = ebpf.map(map.name).and_then(data);
            let data = data.ok_or(DatapathError::Missing(map.name))?;
            let held = data.fd().as_fd().try_clone_to_owned();
            tables.push((map.name, held.map_err(DatapathError::Copies)?));
        }
        Ok(Self(tables))
    }

    /// The names.
    pub(crate) fn names(&self) -> impl Iterator<Item = &'static str> {
        self.0.iter().map(|(name, _)| *name)
    }

    /// Pins the table of this name at a path.
    pub(crate) fn pin(&self, name: &str, path: &Path) -> io::Result<()> {
        let held = self.table(name).ok_or(io::ErrorKind::NotFound)?;
        kernel_object::pin(held, path)
    }

    /// Returns the table of this name.
    pub(crate) fn table(&self, name: &str) -> Option<BorrowedFd<'_>> {
        let found = self.0.iter().find(|(known, _)| *known == name);
        found.map(|(_, held)| held.as_fd())
    }
}

/// The map's, of whatever kind the programs have.
const fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data)
        | Map::HashMap(data)
        | Map::LruHashMap(data)
        | Map::LpmTrie(data)
        | Map::PerCpuArray(data)
        | Map::ProgramArray(data)
        | Map::RingBuf(data)
        | Map::SkStorage(data)
        | Map::Unsupported(data) => Some(data),
        _ => None,
    }
}
