//! Maps, taken out of the loaded object.

use std::{io::ErrorKind, os::fd::AsFd as _};

use aya::{
    Ebpf,
    maps::{HashMap, Map, MapData, MapError},
};
use bytemuck::Pod;
use shunt_common::registry;

use crate::{error::DatapathError, sys::shared_array::SharedArray};

/// Returns the result of a removal: it is no error that there was nothing to remove.
pub(crate) fn removed(result: Result<(), MapError>) -> Result<(), MapError> {
    match result {
        Err(MapError::SyscallError(error)) if error.io_error.kind() == ErrorKind::NotFound => {
            Ok(())
        }
        Err(MapError::KeyNotFound) => Ok(()),
        result => result,
    }
}

/// Takes a table out of the loaded object, as the type that it is used by.
pub(crate) fn take<M>(ebpf: &mut Ebpf, map: registry::Map) -> Result<M, DatapathError>
where
    M: TryFrom<Map, Error = MapError>,
{
    let name = map.name;
    let map = ebpf.take_map(name).ok_or(DatapathError::Missing(name))?;
    M::try_from(map).map_err(|source| DatapathError::Map { name, source })
}

/// Opens a hash of the loaded object once more, for reads beside the writes of the object's own.
pub(crate) fn reopened<K: aya::Pod, V: aya::Pod>(
    ebpf: &Ebpf,
    map: registry::Map,
) -> Result<HashMap<MapData, K, V>, DatapathError> {
    let name = map.name;
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

/// Maps an array into memory, where it stays whatever becomes of the object.
pub(crate) fn shared<T: Pod>(
    ebpf: &Ebpf,
    map: registry::Map,
) -> Result<SharedArray<T>, DatapathError> {
    let name = map.name;
    let data = array(ebpf, map)?;
    let info = data
        .info()
        .map_err(|source| DatapathError::Map { name, source })?;
    if info.value_size() as usize != size_of::<T>() {
        return Err(DatapathError::Missing(name));
    }
    SharedArray::map(data.fd(), info.max_entries())
        .map_err(|source| DatapathError::Mapping { name, source })
}

/// An array of the loaded object.
pub(crate) fn array(ebpf: &Ebpf, map: registry::Map) -> Result<&MapData, DatapathError> {
    let name = map.name;
    match ebpf.map(name) {
        Some(Map::Array(data)) => Ok(data),
        _ => Err(DatapathError::Missing(name)),
    }
}
