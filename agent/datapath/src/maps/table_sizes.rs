//! The sizes of the tables.

use aya::maps::MapData;
use shunt_common::{
    ServiceNumber,
    connections::slots_for,
    registry::{self, FamilyMaps, Map, Size},
};

use crate::maps::{connection_table::capacity_of, families::Families};

/// Number of entries in the tables of each family.
#[derive(Debug, Clone, Copy)]
pub struct TableSizes {
    /// Frontends.
    pub frontends: u32,
    /// Slots: one a backend of each set, and as much again while a set is being replaced.
    pub slots: u32,
    /// Backends of all services.
    pub backends: u32,
    /// Conntrack entries, two a connection: halves that find room if all connections are established.
    pub conntrack: u32,
    /// Clients of services with session affinity, counted once for each service port.
    pub affinity: u32,
    /// Source ranges, counted once for each frontend.
    pub source_ranges: u32,
    /// Fragmented packets of which later fragments may come.
    pub fragments: u32,
    /// Service ports, of both families: those that are counted by themselves.
    pub services: u32,
}

impl Default for TableSizes {
    fn default() -> Self {
        Self {
            frontends: 1 << 16,
            slots: 1 << 20,
            backends: 1 << 19,
            conntrack: 1 << 19,
            affinity: 1 << 16,
            source_ranges: 1 << 16,
            fragments: 1 << 13,
            services: 1 << 14,
        }
    }
}

/// Uses of tables that are not always wanted.
#[derive(Debug, Clone, Copy)]
pub struct Uses {
    /// Packets go to pods of this node in one hop.
    pub redirect: bool,
    /// Packets in transit go from driver to driver.
    pub xdp: bool,
    /// Packets and bytes are counted for each service port.
    pub traffic: bool,
}

/// A table, and the number of entries to create it with.
#[derive(Debug, Clone, Copy)]
pub struct SizedTable {
    /// The table.
    pub map: Map,
    /// Number of entries.
    pub entries: u32,
}

/// A table that programs write and that is going to be larger.
#[derive(Debug)]
pub(crate) struct Outgrown {
    /// The table.
    pub(crate) map: Map,
    /// The tables that programs of earlier agents write, at one hook or another.
    pub(crate) before: Vec<MapData>,
}

impl TableSizes {
    /// The largest number of conntrack entries: a half has 25 bits for the place of the other one
    /// (`shunt_common::connections::Link`).
    pub const MAX_CONNTRACK: u32 = capacity_of(1 << 25);

    /// The largest number of service ports: a connection has 16 bits for their index, and the first one is
    /// not given out.
    pub const MAX_SERVICES: u32 = ServiceNumber::LIMIT - 1;

    /// The tables that are not as large as in the object. Those of a family that is not
    /// translated have one entry, as have those that are of no use as things are.
    pub fn tables(&self, families: Families, uses: Uses) -> Vec<SizedTable> {
        let of_family = |maps: FamilyMaps, is_translated: bool| {
            let maps = maps.all().into_iter();
            maps.filter_map(move |map| {
                let entries = self.entries(map.size, uses)?;
                Some(SizedTable {
                    map,
                    entries: if is_translated { entries } else { 1 },
                })
            })
        };
        let shared = registry::SHARED.iter().filter_map(|map| {
            let entries = self.entries(map.size, uses)?;
            Some(SizedTable { map: *map, entries })
        });
        of_family(FamilyMaps::V4, families.ipv4)
            .chain(of_family(FamilyMaps::V6, families.ipv6))
            .chain(shared)
            .collect()
    }

    /// Returns the number of entries of a table of this size; `None` if the object defines it.
    pub(crate) const fn entries(&self, size: Size, uses: Uses) -> Option<u32> {
        let Self {
            frontends,
            slots,
            backends,
            conntrack,
            affinity,
            source_ranges,
            fragments,
            services,
        } = *self;
        match size {
            Size::Frontends => Some(frontends),
            Size::Slots => Some(slots),
            Size::Backends => Some(backends),
            Size::Conntrack => Some(slots_for(conntrack)),
            Size::Affinity => Some(affinity),
            Size::SourceRanges => Some(source_ranges),
            Size::Fragments => Some(fragments),
            Size::Services => Some(services + 1),
            Size::Traffic if uses.traffic => Some(services + 1),
            Size::Redirect if uses.redirect => None,
            Size::Xdp if uses.xdp => None,
            Size::Traffic | Size::Redirect | Size::Xdp => Some(1),
            Size::Fixed => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_table_has_an_index_for_each_slot() {
        assert_eq!(TableSizes::MAX_CONNTRACK, 22_369_451);
        assert!(slots_for(TableSizes::MAX_CONNTRACK) <= 1 << 25);
    }

    #[test]
    fn a_family_that_is_not_translated_takes_no_memory() {
        let families = Families {
            ipv4: true,
            ipv6: false,
        };
        let uses = |all| Uses {
            redirect: all,
            xdp: all,
            traffic: all,
        };
        let tables = TableSizes::default().tables(families, uses(true));
        let entries = |wanted: Map| {
            let table = tables.iter().find(|table| table.map == wanted);
            table.map(|table| table.entries)
        };
        assert_eq!(entries(FamilyMaps::V4.slots), Some(1 << 20));
        assert_eq!(entries(FamilyMaps::V6.slots), Some(1));
        assert_eq!(entries(FamilyMaps::V4.node), None, "as the object says");
        assert_eq!(entries(registry::PEERS), None, "as the object says");
        assert_eq!(entries(FamilyMaps::V4.ways), None, "as the object says");
        assert_eq!(entries(registry::SERVICE_TRAFFIC), Some((1 << 14) + 1));
        let tables = TableSizes::default().tables(families, uses(false));
        for map in [
            registry::PEERS,
            FamilyMaps::V4.ways,
            registry::SERVICE_TRAFFIC,
        ] {
            let has_one = |table: &SizedTable| table.map == map && table.entries == 1;
            assert!(tables.iter().any(has_one), "{}", map.name);
        }
    }
}
