//! What an object consists of in the kernel, so that others find its tables: the kernel cuts names off.

use std::{io, os::fd::AsFd as _};

use aya::{
    Ebpf,
    maps::{Map, MapData, MapType},
};
use shunt_common::registry;

use crate::{
    object::constants::Constants,
    sys::batch::{self, EntrySize},
};

/// A constant by its name, as the programs hold it.
pub type Constant = (&'static str, Box<[u8]>);

/// The tables of an object, and what its constants are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// Each table but those that every processor or every socket has its own of, by its name, with its id
    /// in the kernel.
    pub tables: Vec<(&'static str, u32)>,
    /// Each constant by its name, as the programs hold it.
    pub constants: Vec<Constant>,
}

impl Parts {
    /// Of an object whose maps have not been taken out yet.
    ///
    /// # Errors
    ///
    /// If the kernel does not tell of one of its maps.
    pub(crate) fn of(ebpf: &Ebpf, constants: &Constants) -> io::Result<Self> {
        let mut tables = Vec::new();
        for map in registry::maps() {
            let Some(data) = ebpf.map(map.name).and_then(data) else {
                continue;
            };
            let info = data.info().map_err(io::Error::other)?;
            tables.push((map.name, info.id()));
        }
        let constants = constants.values().into_iter();
        Ok(Self {
            tables,
            constants: constants
                .map(|(name, value)| (name, value.into()))
                .collect(),
        })
    }
}

/// The map's, if it is of a kind that has the same entries for every processor and every socket.
const fn data(map: &Map) -> Option<&MapData> {
    match map {
        Map::Array(data) | Map::HashMap(data) | Map::LruHashMap(data) | Map::LpmTrie(data) => {
            Some(data)
        }
        _ => None,
    }
}

/// What is in a table of the kernel's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// The values of an array, one right after the other.
    Values(Vec<u8>),
    /// The keys and the values of another table.
    Entries(Vec<(Vec<u8>, Vec<u8>)>),
}

impl Contents {
    /// Copies what is in the table with this id. What changes meanwhile may be there as it was, or as it is.
    ///
    /// # Errors
    ///
    /// There is no such table any more, or the kernel does not let us read it: that takes
    /// `CAP_SYS_ADMIN`.
    pub fn of(id: u32) -> io::Result<Self> {
        let data = MapData::from_id(id).map_err(io::Error::other)?;
        let info = data.info().map_err(io::Error::other)?;
        let size = EntrySize {
            key: info.key_size() as usize,
            value: info.value_size() as usize,
        };
        let (keys, values) = batch::read(data.fd().as_fd(), size, info.max_entries() as usize)?;
        if matches!(info.map_type(), Ok(MapType::Array)) {
            return Ok(Self::Values(values));
        }
        let keys = keys.chunks(size.key).map(<[u8]>::to_vec);
        let values = values.chunks(size.value).map(<[u8]>::to_vec);
        Ok(Self::Entries(keys.zip(values).collect()))
    }
}
