//! The object's maps in the kernel: those that are pinned, and new ones.

use aya::{Ebpf, EbpfLoader, maps::Array};
use bytemuck::Pod;
use shunt_common::{
    connections::Timeouts,
    registry::{
        self,
        handover::{self, From},
    },
};

use crate::{
    error::DatapathError,
    maps::{
        clock::Rate,
        counters::Counters,
        object_maps,
        table_sizes::{Outgrown, SizedTable},
    },
    object::{
        all_tables::AllTables, constants::Constants, copies::TableCopies, definitions,
        options::DatapathOptions, programs::OBJECT, remake::remake, room::Room, takeover::Takeover,
    },
    pins::{directory::Pins, layout::Layout},
    sys::raw::Raw,
};

/// The object with its maps; the kernel has not seen a program of it yet.
pub(crate) struct Opened {
    /// The object.
    pub(crate) ebpf: Ebpf,
    /// Its tables and constants.
    pub(crate) copies: TableCopies,
    /// All its tables.
    pub(crate) tables: AllTables,
    /// The programs' counters.
    pub(crate) counters: Counters,
    /// The pin directory, if there is one, and the layout of what is pinned.
    pub(crate) pins: Option<(Pins, Layout)>,
    /// Its connection tables.
    pub(crate) takeover: Takeover,
    /// Tables that are too small, and stay pinned until ours have all that programs write there.
    pub(crate) outgrown: Vec<Outgrown>,
    /// Number of ticks for which connections may be silent.
    pub(crate) timeouts: Timeouts,
}

impl Opened {
    /// Makes the maps, or adopts those that are pinned. Nothing in these is changed; some give way to
    /// copies of another size.
    ///
    /// # Errors
    ///
    /// If the pin directory is in use, or what is pinned there cannot be adopted; if the kernel
    /// lacks a feature, or we a privilege.
    pub(crate) fn new(options: &DatapathOptions) -> Result<Self, DatapathError> {
        let rate = Rate::of_kernel()?;
        let sized = options.sizes.tables(options.families, options.uses());
        let pins = options.pin_dir.as_deref().map(Pins::open).transpose()?;
        let mut pins = match pins {
            Some(pins) => Some((pins, definitions::layout()?)),
            None => None,
        };
        let (room, takeover) = match &mut pins {
            Some((pins, layout)) => {
                let copied = layout.check(pins)?;
                let mut room = Room::beside(pins, &sized)?;
                let misfits = copied.into_iter().filter(|map| !room.remade.contains(map));
                room.remade.extend(misfits.collect::<Vec<_>>());
                (room, Takeover::plan(options, pins)?)
            }
            None => (Room::as_asked(sized), Takeover::none(options)?),
        };
        let constants = Constants::of(options, &takeover, rate)?;
        let mut loader = EbpfLoader::new();
        constants.set(&mut loader);
        for SizedTable { map, entries } in &room.tables {
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
                if !room.remade.contains(&map) {
                    loader.map_pin_path(map.name, pins.map(&room.pin(map)));
                }
            }
            adopt_previous(&mut loader, pins, &takeover);
        }
        let mut ebpf = loader.load(&OBJECT.bytes()?)?;
        leave(&mut ebpf, registry::SEEDS, takeover.seeds)?;
        leave(&mut ebpf, registry::GIVEN_PORTS, takeover.given_ports)?;
        if let Some((pins, _)) = &pins {
            remake(&mut ebpf, pins, &room.remade)?;
        }
        let copies = TableCopies::of(&ebpf, &constants).map_err(DatapathError::Copies)?;
        let tables = AllTables::of(&ebpf)?;
        let counters = Counters::new(object_maps::take(&mut ebpf, registry::COUNTERS)?);
        Ok(Self {
            ebpf,
            copies,
            tables,
            counters,
            pins,
            takeover,
            outgrown: room.outgrown,
            timeouts: options.timeouts.in_ticks(rate),
        })
    }
}

/// Has the loader adopt the tables that hand over, and put ours where it does not stand in their way.
fn adopt_previous(loader: &mut EbpfLoader<'_>, pins: &Pins, takeover: &Takeover) {
    let families = [handover::FamilyMaps::V4, handover::FamilyMaps::V6];
    for ((ours, _), family) in takeover.tables().into_iter().zip(families) {
        loader.map_pin_path(ours.name, pins.map(&takeover.pin(ours)));
        if takeover.from == From::Nothing {
            continue;
        }
        let previous = family.resized;
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
