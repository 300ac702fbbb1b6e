//! Entries of session affinity and fragments with the second when they were last used: those of one
//! table become another's.

use std::io;

use aya::maps::{HashMap, IterableMap as _, MapData, MapError};
use bytemuck::Pod;
use shunt_common::{AffinityEntry, Family, FragmentEntry};

use crate::sys::raw::Raw;

/// An entry with a date in seconds.
pub(crate) trait Dated: Pod {
    /// The date.
    fn date(&mut self) -> &mut u32;
}

impl Dated for AffinityEntry {
    fn date(&mut self) -> &mut u32 {
        &mut self.last_used
    }
}

impl<F: Family> Dated for FragmentEntry<F> {
    fn date(&mut self) -> &mut u32 {
        &mut self.seen
    }
}

type Table<K, V> = HashMap<MapData, Raw<K>, Raw<V>>;

/// Copies the entries that are younger than ours.
///
/// # Errors
///
/// If the kernel does not read or write them.
pub(crate) fn copy<K: Pod, V: Dated>(
    before: &Table<K, V>,
    ours: &mut Table<K, V>,
) -> io::Result<()> {
    let failure = |error| match error {
        MapError::SyscallError(error) => error.io_error,
        other => io::Error::other(other),
    };
    let capacity = before.map().info().map_err(failure)?.max_entries();
    // While programs write, the walk may begin again: it ends all the same.
    for entry in before.iter().take(2 * capacity as usize) {
        let (key, Raw(mut entry)) = entry.map_err(failure)?;
        let date = *entry.date();
        let is_older = match ours.get(&key, 0) {
            Ok(Raw(mut there)) => date.wrapping_sub(*there.date()) as i32 > 0,
            Err(_) => true,
        };
        if is_older {
            ours.insert(key, Raw(entry), 0).map_err(failure)?;
        }
    }
    Ok(())
}
