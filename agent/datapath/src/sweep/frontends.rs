//! The UDP frontends that there are, read beside the agent's writes.

use std::{net::SocketAddr, os::fd::AsFd as _};

use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use shunt_common::{FrontendKey, UDP, V4, V6};

use crate::{error::DatapathError, maps::family::FromIp, sys::raw::Raw};

/// The frontend tables of both families.
#[derive(Debug)]
pub(crate) struct Frontends {
    v4: Table<V4>,
    v6: Table<V6>,
}

/// One family's table.
type Table<F> = HashMap<MapData, Raw<FrontendKey<F>>, u32>;

impl Frontends {
    /// Opens the tables of the loaded object.
    pub(crate) fn open(ebpf: &Ebpf) -> Result<Self, DatapathError> {
        Ok(Self {
            v4: open::<V4>(ebpf)?,
            v6: open::<V6>(ebpf)?,
        })
    }

    /// Returns true if there is a UDP frontend at this address and port. A table that cannot be read has none.
    pub(crate) fn has(&self, address: SocketAddr) -> bool {
        has(&self.v4, address) || has(&self.v6, address)
    }
}

fn open<F: FromIp>(ebpf: &Ebpf) -> Result<Table<F>, DatapathError> {
    let name = F::MAPS.frontends.name;
    let Some(Map::HashMap(data)) = ebpf.map(name) else {
        return Err(DatapathError::Missing(name));
    };
    let again = data.fd().as_fd().try_clone_to_owned();
    again
        .map_err(MapError::IoError)
        .and_then(MapData::from_fd)
        .and_then(|data| HashMap::try_from(Map::HashMap(data)))
        .map_err(|source| DatapathError::Map { name, source })
}

fn has<F: FromIp>(table: &Table<F>, address: SocketAddr) -> bool {
    F::address(address.ip()).is_some_and(|ip| {
        let key = FrontendKey::<F>::new(ip, address.port().to_be(), UDP);
        table.get(&Raw(key), 0).is_ok()
    })
}
