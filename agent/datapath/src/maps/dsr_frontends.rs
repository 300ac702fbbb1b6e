//! The connections to frontends in mode dsr.

use std::collections::HashMap;

use aya::{
    Ebpf,
    maps::{self, MapData},
};
use shunt_common::{
    Cell, FrontendKey,
    connections::{Snapshot, Wide},
};

use crate::{
    error::DatapathError,
    maps::{family::FromIp, object_maps},
    sys::{raw::Raw, shared_array::SharedArray},
};

/// The frontends in mode dsr, as packets see it.
#[derive(Debug)]
pub(crate) struct DsrFrontends<F: FromIp> {
    frontends: maps::HashMap<MapData, Raw<FrontendKey<F>>, u32>,
    cells: SharedArray<u64>,
}

impl<F: FromIp> DsrFrontends<F> {
    /// Over the object's tables, beside those who write there.
    ///
    /// # Errors
    ///
    /// If there are no such tables.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            frontends: object_maps::reopened(ebpf, F::MAPS.frontends)?,
            cells: object_maps::shared(ebpf, F::MAPS.cells)?,
        })
    }

    /// Returns whether the frontend with this key is in mode dsr. What cannot be read may be.
    fn has(&self, key: FrontendKey<F>) -> bool {
        match self.frontends.get(&Raw(key), 0) {
            Ok(index) if index < self.cells.len() => {
                Cell::from_word(self.cells.read(index)).has(Cell::DSR)
            }
            Err(maps::MapError::KeyNotFound) => false,
            _ => true,
        }
    }
}

/// Finds out of connections whether they are to such frontends, and asks once for each frontend.
#[derive(Debug)]
pub(crate) struct DsrConnections<'a, F: FromIp> {
    frontends: &'a DsrFrontends<F>,
    known: HashMap<(F::Address, u16, u8), bool>,
}

impl<'a, F: FromIp> DsrConnections<'a, F> {
    pub(crate) fn among(frontends: &'a DsrFrontends<F>) -> Self {
        Self {
            frontends,
            known: HashMap::new(),
        }
    }

    /// Returns whether this is such a connection.
    pub(crate) fn has(&mut self, snapshot: &Snapshot<F>) -> bool
    where
        F: Wide,
    {
        let client = snapshot.connection.client();
        let protocol = snapshot.connection.forward.protocol();
        let (address, port) = (client.destination, client.destination_port);
        let Self { frontends, known } = self;
        *known
            .entry((address, port, protocol))
            .or_insert_with(|| frontends.has(FrontendKey::new(address, port, protocol)))
    }
}
