//! Interfaces at which frames for other stations are left alone, in tests of single frames.

use anyhow::Result;
use aya::maps::{Array, Map, MapData};
use nix::net::if_::if_nameindex;
use shunt_common::StationPlace;

/// Writes for all interfaces of the calling thread's network namespace whether they are ports of a bridge, in the
/// agent's place: nothing is attached in these tests. Whatever has the agent look at its interfaces undoes it.
///
/// # Errors
///
/// If the kernel refuses.
pub fn set_stations(table: MapData, are_ports: bool) -> Result<()> {
    let mut table: Array<MapData, u64> = Array::try_from(Map::Array(table))?;
    for interface in &if_nameindex()? {
        if let Some(place) = StationPlace::of(interface.index()) {
            let before = table.get(&place.word, 0)?;
            let after = if are_ports {
                before & !place.mask
            } else {
                before | place.mask
            };
            table.set(place.word, after, 0)?;
        }
    }
    Ok(())
}
