//! The sizes that the tables are going to have, where an earlier agent has pinned some with other sizes.

use std::{cmp::max, collections::BTreeMap};

use aya::maps::MapInfo;
use shunt_common::registry::{FamilyMaps, Kind, Map, Size};
use tracing::{info, warn};

use crate::{
    error::DatapathError,
    maps::table_sizes::{Outgrown, SizedTable},
    pins::directory::{Pins, draft},
};

/// The tables of connections are not among these: they have their own
/// [`Takeover`](crate::object::takeover::Takeover).
#[derive(Debug, Default)]
pub(crate) struct Room {
    /// Every table that is not as large as in the object.
    pub(crate) tables: Vec<SizedTable>,
    /// The pinned tables of another size that only agents write, but for counts.
    pub(crate) remade: Vec<Map>,
    /// Tables that are too small and that programs write.
    pub(crate) outgrown: Vec<Outgrown>,
}

/// Tables that are as large as each other: those that one setting sizes, of one family or of both.
type Class = (&'static str, Size);

impl Room {
    /// As was asked for: nothing is pinned.
    pub(crate) fn as_asked(asked: Vec<SizedTable>) -> Self {
        Self {
            tables: asked,
            ..Self::default()
        }
    }

    /// Beside what is pinned. A table becomes larger, but none becomes smaller, but for the packets and
    /// bytes that are not counted any more: the agent before may have used all of its indexes, and
    /// connections remember them.
    ///
    /// All tables of a class become as large as the largest, whatever an agent that was killed has left
    /// of them.
    ///
    /// # Errors
    ///
    /// If a pinned table cannot be looked at.
    pub(crate) fn beside(pins: &Pins, asked: &[SizedTable]) -> Result<Self, DatapathError> {
        let mut found = BTreeMap::new();
        let mut rooms: BTreeMap<Class, u32> = BTreeMap::new();
        for SizedTable { map, entries } in asked {
            let pinned = entries_of(pins, map, map.pin)?;
            let drafted = entries_of(pins, map, &draft(map.pin))?.filter(|_| is_outgrown(map.size));
            if let Some(pinned) = pinned {
                found.insert(map.name, pinned);
            }
            let room = rooms.entry(class(map)).or_default();
            let largest = pinned.max(drafted).filter(|_| map.size != Size::Traffic);
            *room = max(
                *room,
                largest.map_or(*entries, |there| max(there, *entries)),
            );
        }
        let services = rooms.get(&(BOTH, Size::Services)).copied();
        if let (Some(traffic), Some(services)) = (rooms.get_mut(&(BOTH, Size::Traffic)), services)
            && *traffic > 1
        {
            // A service port that has an index in the one has it in the other.
            *traffic = services;
        }
        let mut room = Self::default();
        for table in asked
            .iter()
            .filter(|table| table.map.size != Size::Conntrack)
        {
            let entries = rooms[&class(&table.map)];
            room.add(pins, SizedTable { entries, ..*table }, &found)?;
        }
        explain(asked, &rooms, &found);
        Ok(room)
    }

    /// Decides what becomes of a table that is going to have this room.
    fn add(
        &mut self,
        pins: &Pins,
        table: SizedTable,
        found: &BTreeMap<&str, u32>,
    ) -> Result<(), DatapathError> {
        let SizedTable { map, entries } = table;
        self.tables.push(table);
        if found.get(map.name).is_none_or(|there| *there == entries) {
            return Ok(());
        }
        if !is_outgrown(map.size) {
            self.remade.push(map);
            return Ok(());
        }
        let mut before = vec![pins.open_map(map.pin)?];
        let draft = draft(map.pin);
        if entries_of(pins, &map, &draft)?.is_some_and(|there| there != entries) {
            // An agent was killed whose programs some hooks have, and this one was given another size.
            before.push(pins.open_map(&draft)?);
            pins.remove_map(&draft)?;
        }
        self.outgrown.push(Outgrown { map, before });
        Ok(())
    }

    /// As a table is pinned from the beginning.
    pub(crate) fn pin(&self, map: Map) -> String {
        if self.outgrown.iter().any(|outgrown| outgrown.map == map) {
            draft(map.pin)
        } else {
            map.pin.to_owned()
        }
    }
}

const BOTH: &str = "both families";

fn class(map: &Map) -> Class {
    let is_of = |maps: FamilyMaps| maps.all().contains(map);
    let family = if is_of(FamilyMaps::V4) {
        "IPv4"
    } else if is_of(FamilyMaps::V6) {
        "IPv6"
    } else {
        BOTH
    };
    (family, map.size)
}

/// Returns whether programs write tables of this size, not agents.
const fn is_outgrown(size: Size) -> bool {
    matches!(size, Size::Affinity | Size::Fragments)
}

/// Returns the number of entries of a table of state that is pinned like this, if one is.
fn entries_of(pins: &Pins, map: &Map, pin: &str) -> Result<Option<u32>, DatapathError> {
    if map.kind != Kind::State || map.size == Size::Conntrack {
        return Ok(None);
    }
    Ok(pins.map_info(pin)?.as_ref().map(MapInfo::max_entries))
}

/// Logs the changes of the sizes, once a class.
fn explain(asked: &[SizedTable], rooms: &BTreeMap<Class, u32>, found: &BTreeMap<&str, u32>) {
    for ((family, size), room) in rooms {
        if *size == Size::Traffic {
            continue;
        }
        let tables = || {
            let tables = asked.iter();
            tables.filter(|table| class(&table.map) == (*family, *size))
        };
        let what = size.name();
        // The first index of service ports has no owner.
        let shown = |entries: u32| entries - u32::from(*size == Size::Services);
        let made = shown(*room);
        let smallest = tables().filter_map(|table| found.get(table.map.name)).min();
        if let Some(smallest) = smallest.filter(|smallest| **smallest < *room) {
            let there = shown(*smallest);
            info!("{family}: the pinned tables' room for {there} {what} becomes room for {made}");
        }
        if let Some(table) = tables().find(|table| table.entries < *room) {
            warn!(
                "{family}: the pinned tables keep their room for {made} {what}, although {} were asked \
                 for: only a larger room is made while packets are translated, and `shunt cleanup` \
                 would end that",
                shown(table.entries)
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use shunt_common::registry;

    use super::*;

    #[test]
    fn what_programs_write_is_what_moves() {
        for map in registry::maps().filter(|map| is_outgrown(map.size)) {
            assert!(
                [FamilyMaps::V4, FamilyMaps::V6]
                    .iter()
                    .any(|maps| map == maps.affinity || map == maps.fragments),
                "{}: `handover::outgrown` copies it",
                map.name
            );
        }
    }
}
