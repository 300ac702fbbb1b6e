//! Session affinity and fragments move to larger tables.
//!
//! Programs write these: those of an earlier agent to the table that is pinned, ours to one that is pinned
//! beside it. What is in the first is copied before a hook has a program of ours, and once more when none
//! has another. Of two entries the younger counts. Then the new table takes the old one's name; an agent
//! that is killed before that leaves both, and the next one goes on with them.

use std::{fmt, io};

use aya::maps::{HashMap, Map, MapData, MapError};
use bytemuck::Pod;
use shunt_common::{AffinityEntry, AffinityKey, FragmentEntry, FragmentKey, V4, V6, registry};
use tracing::{info, warn};

use crate::{
    error::DatapathError,
    handover::{
        dated::{self, Dated},
        steps::wait_for_readers,
    },
    maps::{family::FromIp, table_sizes::Outgrown},
    pins::directory::{Pins, draft},
    sys::{crash::died_after, raw::Raw},
};

/// The tables that move.
#[derive(Debug)]
pub(crate) struct Moves(Vec<(registry::Map, Box<dyn Move>)>);

/// A table that moves.
trait Move: fmt::Debug + Send {
    /// Copies what is missing, or older, in our table.
    fn copy(&mut self) -> io::Result<()>;
}

type Table<K, V> = HashMap<MapData, Raw<K>, Raw<V>>;

/// One with these keys and entries.
#[derive(Debug)]
struct Pair<K, V> {
    before: Vec<Table<K, V>>,
    ours: Table<K, V>,
}

impl<K: Pod + fmt::Debug + Send, V: Dated + fmt::Debug + Send> Move for Pair<K, V> {
    fn copy(&mut self) -> io::Result<()> {
        let Self { before, ours } = self;
        let mut before = before.iter();
        before.try_for_each(|before| dated::copy(before, ours))
    }
}

impl Moves {
    /// Of these tables to those that the object has pinned beside them.
    ///
    /// # Errors
    ///
    /// If a table cannot be opened.
    pub(crate) fn begin(pins: &Pins, outgrown: Vec<Outgrown>) -> Result<Self, DatapathError> {
        let tables = outgrown.into_iter().map(|Outgrown { map, before }| {
            let moved = match of_family::<V4>(pins, map, before)? {
                Ok(moved) => moved,
                Err(before) => of_family::<V6>(pins, map, before)?
                    .map_err(|_| DatapathError::Missing(map.name))?,
            };
            Ok((map, moved))
        });
        tables.collect::<Result<_, DatapathError>>().map(Self)
    }

    /// Copies what programs of earlier agents have written until now. What cannot be copied is forgotten:
    /// clients choose anew.
    pub(crate) fn copy(&mut self) {
        for (map, moved) in &mut self.0 {
            if let Err(error) = moved.copy() {
                warn!(%error, table = map.name, "some entries stay in the table before");
            }
        }
    }

    /// After every hook has a program of ours.
    ///
    /// # Errors
    ///
    /// If the new tables cannot take the names of the others. They stay beside them then, and the next agent
    /// begins anew.
    pub(crate) fn finish(mut self, pins: &Pins) -> Result<(), DatapathError> {
        if self.0.is_empty() {
            return Ok(());
        }
        died_after("replace");
        // The last packet that a program of an earlier agent was at is through.
        wait_for_readers()?;
        self.copy();
        died_after("move");
        for (map, _) in &self.0 {
            pins.rename_map(&draft(map.pin), map.pin)?;
            died_after(map.pin);
        }
        info!("session affinity and fragments have moved to larger tables");
        Ok(())
    }
}

/// The move of the table, if it is one of this family; if not, the tables before.
fn of_family<F: FromIp>(
    pins: &Pins,
    map: registry::Map,
    before: Vec<MapData>,
) -> Result<Result<Box<dyn Move>, Vec<MapData>>, DatapathError> {
    let registry::FamilyMaps {
        affinity,
        fragments,
        ..
    } = F::MAPS;
    Ok(if map == affinity {
        Ok(pair::<AffinityKey<F>, AffinityEntry>(pins, map, before)?)
    } else if map == fragments {
        Ok(pair::<FragmentKey<F>, FragmentEntry<F>>(pins, map, before)?)
    } else {
        Err(before)
    })
}

fn pair<K, V>(
    pins: &Pins,
    map: registry::Map,
    before: Vec<MapData>,
) -> Result<Box<dyn Move>, DatapathError>
where
    K: Pod + fmt::Debug + Send,
    V: Dated + fmt::Debug + Send,
{
    let before = before.into_iter().map(|data| hash(data, map.name));
    Ok(Box::new(Pair::<K, V> {
        before: before.collect::<Result<_, _>>()?,
        ours: hash(pins.open_map(&draft(map.pin))?, map.name)?,
    }))
}

/// A hash of any kind.
fn hash<K: Pod, V: Pod>(data: MapData, name: &'static str) -> Result<Table<K, V>, DatapathError> {
    let failed = |source: MapError| DatapathError::Map { name, source };
    let map = Map::from_map_data(data).map_err(failed)?;
    HashMap::try_from(map).map_err(failed)
}
