//! Tables that take the place of pinned ones with other sizes, and with the same entries.
//!
//! Only agents write these, and no other one is at work: so each is a copy at any time until ours
//! publishes its first change, and whichever is pinned when an agent ends is right. What programs count
//! meanwhile is in the table before.

use std::{io, os::fd::AsFd as _};

use aya::{
    Ebpf,
    maps::{Map, MapData, MapType},
    util::nr_cpus,
};
use shunt_common::registry;
use tracing::warn;

use crate::{
    error::{DatapathError, TableError},
    pins::directory::Pins,
    sys::{
        batch::{self, EntrySize},
        crash::died_after,
    },
};

/// Copies the pinned tables to those of the object and pins these in their place. Until all are copied,
/// nothing is changed.
///
/// # Errors
///
/// If a table cannot be read, written or pinned. Counts begin anew then.
pub(crate) fn remake(
    ebpf: &mut Ebpf,
    pins: &Pins,
    remade: &[registry::Map],
) -> Result<(), DatapathError> {
    for map in remade {
        match copy(data(ebpf, *map)?, &pins.open_map(map.pin)?) {
            Err(error) if is_counts(*map) => {
                warn!(%error, table = map.name, "counts begin anew");
            }
            copied => copied?,
        }
    }
    died_after("remake");
    for map in remade {
        pins.replace_map(map.pin, data(ebpf, *map)?)?;
        died_after(map.pin);
    }
    Ok(())
}

/// Returns whether nothing depends on what is in the table.
fn is_counts(map: registry::Map) -> bool {
    map == registry::COUNTERS || map == registry::SERVICE_TRAFFIC
}

fn data(ebpf: &Ebpf, map: registry::Map) -> Result<&MapData, DatapathError> {
    match ebpf.map(map.name) {
        Some(
            Map::Array(data) | Map::HashMap(data) | Map::LpmTrie(data) | Map::PerCpuArray(data),
        ) => Ok(data),
        _ => Err(DatapathError::Missing(map.name)),
    }
}

/// Copies what both tables have room for.
fn copy(to: &MapData, from: &MapData) -> Result<(), DatapathError> {
    let failed = |source: io::Error| {
        DatapathError::Handover(TableError::Kernel {
            call: "copying a table",
            source,
        })
    };
    let info = |data: &MapData| {
        let info = data
            .info()
            .map_err(|error| failed(io::Error::other(error)))?;
        let is_each_cpus = matches!(info.map_type(), Ok(MapType::PerCpuArray));
        let value = info.value_size() as usize;
        let value = if is_each_cpus {
            let processors = nr_cpus().map_err(|(_, error)| failed(error))?;
            value.next_multiple_of(8) * processors
        } else {
            value
        };
        let size = EntrySize {
            key: info.key_size() as usize,
            value,
        };
        Ok::<_, DatapathError>((size, info.max_entries()))
    };
    let ((before, held), (size, room)) = (info(from)?, info(to)?);
    if before != size {
        return Err(failed(io::Error::other(
            "its entries are laid out otherwise",
        )));
    }
    batch::copy(
        from.fd().as_fd(),
        to.fd().as_fd(),
        size,
        held.min(room) as usize,
    )
    .map_err(failed)
}
