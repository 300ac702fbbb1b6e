//! The object's maps in the kernel: those that are pinned, and new ones.

use aya::{
    Ebpf, EbpfLoader,
    maps::{Map, MapData},
};
use shunt_common::registry;
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{counters::Counters, kernel_tables, table_sizes::SizedTable},
    object::{constants::Constants, definitions, options::DatapathOptions, programs::OBJECT},
    pins::{
        directory::Pins,
        error::PinError,
        layout::{Found, Layout},
    },
};

/// The object with its maps; the kernel has not seen a program of it yet.
pub(crate) struct Opened {
    /// The object.
    pub(crate) ebpf: Ebpf,
    /// The programs' counters.
    pub(crate) counters: Counters,
    /// Where things are pinned, if they are, and how.
    pub(crate) pins: Option<(Pins, Layout)>,
    /// Whether the version before has to hand over.
    pub(crate) hands_over: bool,
}

impl Opened {
    /// Makes the maps, or adopts those that are pinned. Nothing in these is changed.
    ///
    /// # Errors
    ///
    /// If the pin directory is in use, or what is pinned there cannot be adopted; if the kernel
    /// lacks a feature, or we a privilege.
    pub(crate) fn new(options: &DatapathOptions) -> Result<Self, DatapathError> {
        let constants = Constants::of(options)?;
        let sized = options.sizes.tables(options.families, options.redirect);
        let pins = options.pin_dir.as_deref().map(Pins::open).transpose()?;
        let pins = match pins {
            Some(pins) => Some((pins, definitions::layout()?)),
            None => None,
        };
        let mut loader = EbpfLoader::new();
        constants.set(&mut loader);
        for SizedTable { map, entries } in &sized {
            loader.map_max_entries(map.name, *entries);
        }
        let mut found = Found::default();
        if let Some((pins, layout)) = &pins {
            found = layout.check(pins)?;
            for map in layout.maps() {
                if !found.copied.contains(&map.name) {
                    loader.map_pin_path(map.name, pins.map(map.pin));
                }
            }
            #[cfg(feature = "next-layout")]
            if found.hands_over {
                before::adopt(&mut loader, pins, &sized)?;
            }
        }
        let mut ebpf = loader.load(OBJECT)?;
        warn_of_kept_sizes(&ebpf, &sized)?;
        let mut counters = Counters::new(kernel_tables::take(&mut ebpf, registry::COUNTERS)?);
        if let Some((pins, _)) = &pins
            && found.copied.contains(&registry::COUNTERS.name)
        {
            copy_counters(&mut counters, pins)?;
        }
        Ok(Self {
            ebpf,
            counters,
            pins,
            hands_over: found.hands_over,
        })
    }
}

/// Pins the counters in place of those that do not fit, with what these counted.
fn copy_counters(counters: &mut Counters, pins: &Pins) -> Result<(), PinError> {
    let name = registry::COUNTERS.pin;
    let path = pins.map(name);
    let before = MapData::from_pin(&path).map_err(PinError::object("opening the table", &path))?;
    if let Err(error) = counters.carry_over(before) {
        warn!(%error, "the counters begin anew");
    }
    pins.replace_map(name, counters.table())
}

#[cfg(feature = "next-layout")]
mod before {
    //! The tables of the version before, of which ours are to have the room.

    use aya::{EbpfLoader, maps::MapInfo};
    use shunt_common::registry::{FamilyMaps, Map, handover};

    use crate::{
        maps::table_sizes::SizedTable,
        pins::{directory::Pins, error::PinError},
    };

    /// Has the loader adopt them where they are pinned.
    pub(super) fn adopt(
        loader: &mut EbpfLoader<'_>,
        pins: &Pins,
        sized: &[SizedTable],
    ) -> Result<(), PinError> {
        let families = [
            (handover::FamilyMaps::V4.previous, FamilyMaps::V4.conntrack),
            (handover::FamilyMaps::V6.previous, FamilyMaps::V6.conntrack),
        ];
        for (previous, ours) in families {
            let path = pins.map(previous.pin);
            if !path.exists() {
                continue;
            }
            let info = MapInfo::from_pin(&path)
                .map_err(PinError::object("looking at the table", &path))?;
            loader.map_pin_path(previous.name, path);
            let asked = |map: Map| sized.iter().find(|table| table.map == map);
            let entries = asked(ours).map_or(0, |table| table.entries);
            loader.map_max_entries(ours.name, entries.max(info.max_entries()));
        }
        Ok(())
    }
}

/// A pinned table has the size that it was made with, and the tables' contents are worth more
/// than a new size.
fn warn_of_kept_sizes(ebpf: &Ebpf, sized: &[SizedTable]) -> Result<(), DatapathError> {
    for SizedTable { map, entries } in sized {
        let name = map.name;
        let (Map::Array(data) | Map::HashMap(data) | Map::LpmTrie(data) | Map::LruHashMap(data)) =
            ebpf.map(name).ok_or(DatapathError::Missing(name))?
        else {
            continue;
        };
        let info = data
            .info()
            .map_err(|source| DatapathError::Map { name, source })?;
        let pinned = info.max_entries();
        if pinned != *entries {
            warn!(
                "the pinned table {name} keeps its room for {pinned} {}, although {entries} were \
                 asked for; `shunt cleanup` lets the next agent begin with new tables",
                map.size.name()
            );
        }
    }
    Ok(())
}
