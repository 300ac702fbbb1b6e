//! The UDP frontends that there are, read beside the agent's writes.

use std::net::SocketAddr;

use aya::{
    Ebpf,
    maps::{HashMap, MapData},
};
use shunt_common::{Cell, FrontendKey, UDP, V4, V6};

use crate::{
    error::DatapathError,
    maps::{family::FromIp, object_maps},
    sys::{raw::Raw, shared_array::SharedArray},
};

/// The frontend tables of both families.
#[derive(Debug)]
pub(crate) struct Frontends {
    v4: Table<V4>,
    v6: Table<V6>,
}

/// One family's tables.
#[derive(Debug)]
struct Table<F: FromIp> {
    frontends: HashMap<MapData, Raw<FrontendKey<F>>, u32>,
    /// By the index of a frontend, what it has: a [`Cell`].
    cells: SharedArray<u64>,
}

impl Frontends {
    /// Opens the tables of the loaded object.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            v4: open::<V4>(ebpf)?,
            v6: open::<V6>(ebpf)?,
        })
    }

    /// Returns true if there is a UDP frontend with backends at this address and port. A table that cannot be read has none.
    pub(crate) fn serve(&self, address: SocketAddr) -> bool {
        self.v4.serves(address) || self.v6.serves(address)
    }
}

/// Opens the family's tables of the loaded object.
fn open<F: FromIp>(ebpf: &Ebpf) -> Result<Table<F>, DatapathError> {
    Ok(Table {
        frontends: object_maps::reopened(ebpf, F::MAPS.frontends)?,
        cells: object_maps::shared(ebpf, F::MAPS.cells)?,
    })
}

impl<F: FromIp> Table<F> {
    fn serves(&self, address: SocketAddr) -> bool {
        let Some(ip) = F::address(address.ip()) else {
            return false;
        };
        let key = FrontendKey::<F>::new(ip, address.port().to_be(), UDP);
        match self.frontends.get(&Raw(key), 0) {
            Ok(index) if index < self.cells.len() => {
                Cell::from_word(self.cells.read(index)).count() > 0
            }
            _ => false,
        }
    }
}
