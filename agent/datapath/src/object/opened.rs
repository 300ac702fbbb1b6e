//! The object's maps in the kernel: those that are pinned, and new ones.

use aya::{
    Ebpf, EbpfLoader,
    maps::{Array, Map, MapData, MapInfo},
};
use bytemuck::Pod;
use shunt_common::{
    connections::Timeouts,
    registry::{
        self, Size,
        handover::{self, From},
    },
};
use tracing::warn;

use crate::{
    error::DatapathError,
    maps::{
        clock::Rate, counters::Counters, kernel_services::carry_traffic_over, kernel_tables,
        table_sizes::SizedTable,
    },
    object::{
        constants::Constants, definitions, options::DatapathOptions, programs::OBJECT,
        takeover::Takeover,
    },
    pins::{
        directory::Pins,
        error::PinError,
        layout::{Found, Layout},
    },
    sys::raw::Raw,
};

/// The object with its maps; the kernel has not seen a program of it yet.
pub(crate) struct Opened {
    /// The object.
    pub(crate) ebpf: Ebpf,
    /// The programs' counters.
    pub(crate) counters: Counters,
    /// Where things are pinned, if they are, and how.
    pub(crate) pins: Option<(Pins, Layout)>,
    /// Which connection tables it has.
    pub(crate) takeover: Takeover,
    /// How many ticks connections may be silent.
    pub(crate) timeouts: Timeouts,
}

impl Opened {
    /// Makes the maps, or adopts those that are pinned. Nothing in these is changed.
    ///
    /// # Errors
    ///
    /// If the pin directory is in use, or what is pinned there cannot be adopted; if the kernel
    /// lacks a feature, or we a privilege.
    pub(crate) fn new(options: &DatapathOptions) -> Result<Self, DatapathError> {
        let rate = Rate::of_kernel()?;
        let sized = options.sizes.tables(options.families, options.uses());
        let pins = options.pin_dir.as_deref().map(Pins::open).transpose()?;
        let pins = match pins {
            Some(pins) => Some((pins, definitions::layout()?)),
            None => None,
        };
        let (found, takeover) = match &pins {
            Some((pins, layout)) => {
                let mut found = layout.check(pins)?;
                found.copied.extend(outgrown(pins, &sized)?);
                let takeover = Takeover::plan(options, pins, found.hands_over)?;
                (found, takeover)
            }
            None => (Found::default(), Takeover::none(options)?),
        };
        let constants = Constants::of(options, &takeover, rate)?;
        let mut loader = EbpfLoader::new();
        constants.set(&mut loader);
        for SizedTable { map, entries } in &sized {
            loader.map_max_entries(map.name, *entries);
        }
        for (map, slots) in takeover.tables() {
            loader.map_max_entries(map.name, slots.ours);
        }
        for family in [handover::FamilyMaps::V4, handover::FamilyMaps::V6] {
            // Until a pinned one takes its place.
            loader.map_max_entries(family.resized.name, 1);
        }
        if let Some((pins, layout)) = &pins {
            for map in layout.maps() {
                if !found.copied.contains(&map.name) {
                    loader.map_pin_path(map.name, pins.map(map.pin));
                }
            }
            adopt_previous(&mut loader, pins, &takeover);
        }
        let mut ebpf = loader.load(OBJECT)?;
        leave(&mut ebpf, registry::SEEDS, takeover.seeds)?;
        leave(&mut ebpf, registry::GIVEN_PORTS, takeover.given_ports)?;
        warn_of_kept_sizes(&ebpf, &sized)?;
        let mut counters = Counters::new(kernel_tables::take(&mut ebpf, registry::COUNTERS)?);
        if let Some((pins, _)) = &pins {
            if found.copied.contains(&registry::COUNTERS.name) {
                copy_counters(&mut counters, pins)?;
            }
            if found.copied.contains(&registry::SERVICE_TRAFFIC.name) {
                copy_traffic(&mut ebpf, pins)?;
            }
        }
        Ok(Self {
            ebpf,
            counters,
            pins,
            takeover,
            timeouts: options.timeouts.in_ticks(rate),
        })
    }
}

/// Has the loader adopt the tables that hand over, and put ours where it does not stand in their way.
fn adopt_previous(loader: &mut EbpfLoader<'_>, pins: &Pins, takeover: &Takeover) {
    let families = [handover::FamilyMaps::V4, handover::FamilyMaps::V6];
    for ((ours, _), family) in takeover.tables().into_iter().zip(families) {
        loader.map_pin_path(ours.name, pins.map(&takeover.pin(ours)));
        let previous = match takeover.from {
            From::Nothing => continue,
            From::Hash => family.previous,
            From::Array => family.resized,
        };
        let path = pins.map(previous.pin);
        if path.exists() {
            loader.map_pin_path(previous.name, path);
        }
    }
}

/// Leaves a value to the next agent, in an array of one.
fn leave<T: Pod>(ebpf: &mut Ebpf, map: registry::Map, value: T) -> Result<(), DatapathError> {
    let name = map.name;
    let failed = |source| DatapathError::Map { name, source };
    let map = ebpf.map_mut(name).ok_or(DatapathError::Missing(name))?;
    let mut array = Array::<_, Raw<T>>::try_from(map).map_err(failed)?;
    array.set(0, Raw(value), 0).map_err(failed)
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

/// The table of packets and bytes, if it is pinned with another size than it is to have: those who count
/// nothing have none of its memory.
fn outgrown(pins: &Pins, sized: &[SizedTable]) -> Result<Option<&'static str>, PinError> {
    let map = registry::SERVICE_TRAFFIC;
    let path = pins.map(map.pin);
    let wanted = sized.iter().find(|table| table.map == map);
    let Some(SizedTable { entries, .. }) = wanted.filter(|_| path.exists()) else {
        return Ok(None);
    };
    let info = MapInfo::from_pin(&path).map_err(PinError::object("looking at the table", &path))?;
    Ok((info.max_entries() != *entries).then_some(map.name))
}

/// Pins the table of packets and bytes in place of the one that does not fit, with what that counted.
fn copy_traffic(ebpf: &mut Ebpf, pins: &Pins) -> Result<(), DatapathError> {
    let name = registry::SERVICE_TRAFFIC.name;
    let path = pins.map(registry::SERVICE_TRAFFIC.pin);
    let before = MapData::from_pin(&path).map_err(PinError::object("opening the table", &path))?;
    let map = ebpf.map_mut(name).ok_or(DatapathError::Missing(name))?;
    if let Err(error) = carry_traffic_over(map, before) {
        warn!(%error, "packets and bytes of services are counted from now on");
    }
    let Map::PerCpuArray(data) = map else {
        return Err(DatapathError::Missing(name));
    };
    pins.replace_map(registry::SERVICE_TRAFFIC.pin, data)?;
    Ok(())
}

/// A pinned table has the size that it was made with, and the tables' contents are worth more
/// than a new size.
fn warn_of_kept_sizes(ebpf: &Ebpf, sized: &[SizedTable]) -> Result<(), DatapathError> {
    // Connections move to a table of the new size.
    for SizedTable { map, entries } in sized
        .iter()
        .filter(|table| table.map.size != Size::Conntrack)
    {
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
