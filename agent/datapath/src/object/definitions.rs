//! The maps of the object, as it defines them.

use aya_obj::Object;
use shunt_common::registry::{self, Kind, Map, Size};

use crate::{
    error::DatapathError,
    object::programs::OBJECT,
    pins::layout::{Layout, Misfit, TableLayout},
};

/// Returns the layout that pinned tables must have.
///
/// # Errors
///
/// If the object lacks a map that the registry has.
pub(crate) fn layout() -> Result<Layout, DatapathError> {
    let object = parse()?;
    Ok(Layout::new(registry::STATE_LAYOUT, state(&object)?))
}

/// The tables of state.
fn state(object: &Object) -> Result<Vec<TableLayout>, DatapathError> {
    let state = registry::maps().filter(|map| map.kind == Kind::State);
    state
        .map(|map| {
            let is_fixed = map.size == Size::Fixed;
            table(object, map, is_fixed)
        })
        .collect()
}

/// Returns the object's definition of a map; with its number of entries if no setting gives it.
fn table(object: &Object, map: Map, is_fixed: bool) -> Result<TableLayout, DatapathError> {
    let defined = object
        .maps
        .get(map.name)
        .ok_or(DatapathError::Missing(map.name))?;
    Ok(TableLayout {
        map,
        kind: defined.map_type(),
        key_size: defined.key_size(),
        value_size: defined.value_size(),
        flags: defined.map_flags(),
        entries: is_fixed.then_some(defined.max_entries()),
        misfit: if map == registry::COUNTERS || map == registry::SERVICE_TRAFFIC {
            Misfit::Copied
        } else {
            Misfit::Refused
        },
    })
}

fn parse() -> Result<Object, DatapathError> {
    Object::parse(&OBJECT.bytes()?)
        .map_err(|error| DatapathError::Load(aya::EbpfError::ParseError(error)))
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet, HashMap};

    use aya_obj::{
        EbpfSectionKind::{BtfMaps, Maps},
        ParseError,
    };
    use shunt_common::{
        AffinityEntry, AffinityKey, Backend, BackendConnections, Cell, Counter, FragmentEntry,
        FragmentKey, FrontendKey, NodeIps, PortRange, ServiceEntry, ServiceNumber, ServiceTraffic,
        Slot, SourceRange, V4, V6,
        connections::{Seeds, Wide},
        registry::{
            COUNTERS, DIRECT, FamilyConstants, FamilyMaps, GIVEN_PORTS, REACHED, SEEDS,
            SERVICE_CONNECTIONS, SERVICE_TRAFFIC, SERVICES, SOCKETS_ASKED, SOCKETS_BEFORE,
            SOCKETS_CONNECTED,
        },
        socket::{Asked, Connected},
    };

    use super::*;
    use crate::maps::family::FromIp;

    #[test]
    fn the_registry_and_the_object_have_the_same_maps() {
        let object = parse().unwrap();
        // The loader makes maps of the constants too.
        let maps = object.maps.iter();
        let defined: BTreeSet<&str> = maps
            .filter(|(_, map)| matches!(map.section_kind(), Maps | BtfMaps))
            .map(|(name, _)| name.as_str())
            .collect();
        let registered: BTreeSet<&str> = registry::maps().map(|map| map.name).collect();
        assert_eq!(defined, registered);
    }

    #[test]
    fn the_object_has_the_constants_of_the_registry() {
        let families = [FamilyConstants::V4, FamilyConstants::V6];
        let families = families.iter().flat_map(FamilyConstants::all);
        for constant in families.chain(registry::CONSTANTS) {
            // No constant is this long, and of one that is there that is what is wrong.
            let bytes = [0; 1 << 12];
            let values = HashMap::from([(constant.name, (bytes.as_slice(), true))]);
            let error = parse().unwrap().patch_map_data(values).unwrap_err();
            assert!(
                matches!(error, ParseError::InvalidGlobalData { .. }),
                "{constant:?}: {error}"
            );
        }
    }

    /// The sizes of key and value of each map of state.
    fn sizes_of_family<F: FromIp + Wide>(sizes: &mut BTreeMap<&str, (usize, usize)>) {
        let FamilyMaps {
            frontends,
            cells,
            slots,
            backends,
            backend_connections,
            source_ranges,
            affinity,
            fragments,
            node,
            conntrack,
            openings: _,
            arrivals: _,
            hops: _,
            ways: _,
            origins: _,
            halfway: _,
            addresses: _,
            guarded: _,
            service_cidrs: _,
            frontend_services,
            locations,
            paths: _,
        } = F::MAPS;
        let index = size_of::<u32>();
        // A key of a prefix table begins with the length of the prefix.
        let prefix = size_of::<u32>() + size_of::<SourceRange<F>>();
        let of_family = [
            (frontends, size_of::<FrontendKey<F>>(), size_of::<u32>()),
            (cells, index, size_of::<Cell>()),
            (slots, index, size_of::<Slot>()),
            (backends, index, size_of::<Backend<F>>()),
            (backend_connections, index, size_of::<BackendConnections>()),
            (source_ranges, prefix, size_of::<u32>()),
            (
                affinity,
                size_of::<AffinityKey<F>>(),
                size_of::<AffinityEntry>(),
            ),
            (
                fragments,
                size_of::<FragmentKey<F>>(),
                size_of::<FragmentEntry<F>>(),
            ),
            (node, index, size_of::<NodeIps<F>>()),
            (conntrack, index, F::SLOT_WORDS * size_of::<u64>()),
            (frontend_services, index, size_of::<ServiceNumber>()),
            (locations, size_of::<F::Address>(), size_of::<F::Address>()),
        ];
        for (Map { name, .. }, key, value) in of_family {
            sizes.insert(name, (key, value));
        }
    }

    #[test]
    fn state_is_laid_out_as_the_agent_reads_it() {
        let mut expected = BTreeMap::new();
        sizes_of_family::<V4>(&mut expected);
        sizes_of_family::<V6>(&mut expected);
        expected.insert(DIRECT.name, (size_of::<u32>(), size_of::<u32>()));
        expected.insert(REACHED.name, (size_of::<u32>(), size_of::<u32>()));
        expected.insert(SEEDS.name, (size_of::<u32>(), size_of::<Seeds>()));
        let ports = size_of::<PortRange>();
        expected.insert(GIVEN_PORTS.name, (size_of::<u32>(), ports));
        let index = size_of::<u32>();
        expected.insert(COUNTERS.name, (index, size_of::<u64>()));
        expected.insert(SERVICES.name, (index, size_of::<ServiceEntry>()));
        expected.insert(SERVICE_CONNECTIONS.name, (index, size_of::<u64>()));
        expected.insert(SERVICE_TRAFFIC.name, (index, size_of::<ServiceTraffic>()));
        let file = size_of::<i32>();
        expected.insert(SOCKETS_CONNECTED.name, (file, size_of::<Connected>()));
        expected.insert(SOCKETS_BEFORE.name, (file, size_of::<Connected>()));
        expected.insert(SOCKETS_ASKED.name, (file, size_of::<Asked>()));
        let layout = state(&parse().unwrap()).unwrap();
        let defined: BTreeMap<&str, (usize, usize)> = layout
            .iter()
            .map(|table| {
                let sizes = (table.key_size as usize, table.value_size as usize);
                (table.map.name, sizes)
            })
            .collect();
        assert_eq!(defined, expected);
        let counters = layout.iter().find(|table| table.map == COUNTERS);
        assert_eq!(counters.unwrap().entries, Some(Counter::ALL.len() as u32));
    }
}
