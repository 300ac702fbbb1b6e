//! The pinned tables, read and written as anyone with root may.

use std::{collections::BTreeMap, fs, net::Ipv4Addr};

use aya::{
    maps::{Array, HashMap, Map, MapData, MapInfo},
    programs::{
        ProgramInfo,
        links::{FdLink, PinnedLink},
    },
};
use shunt_common::Cell;
use shunt_tests::PinDir;

/// A frontend's key as it is in the table: address, port, protocol, padding.
pub(crate) type Key = [u8; 8];

/// The pinned tables.
pub(crate) struct Tables {
    pub(crate) frontends: HashMap<MapData, Key, u32>,
    pub(crate) cells: Array<MapData, u64>,
    pub(crate) slots: Array<MapData, [u32; 4]>,
    pub(crate) backends: Array<MapData, [u8; 16]>,
}

/// The table of this name.
pub(crate) fn map(pins: &PinDir, name: &str) -> MapData {
    MapData::from_pin(pins.path().join("maps").join(name)).unwrap()
}

impl Tables {
    pub(crate) fn open(pins: &PinDir) -> Self {
        let array = |name| Map::Array(map(pins, name));
        Self {
            frontends: HashMap::try_from(Map::HashMap(map(pins, "FRONTENDS_V4"))).unwrap(),
            cells: Array::try_from(array("CELLS_V4")).unwrap(),
            slots: Array::try_from(array("SLOTS_V4")).unwrap(),
            backends: Array::try_from(array("BACKENDS_V4")).unwrap(),
        }
    }

    /// The backends of each frontend, by address and port.
    ///
    /// # Panics
    ///
    /// If a frontend points at nothing.
    pub(crate) fn view(&self) -> BTreeMap<Key, Vec<(Ipv4Addr, u16)>> {
        let backend = |index: u32| {
            let [a, b, c, d, _, _, _, _, high, low, ..] = self.backends.get(&index, 0).unwrap();
            (Ipv4Addr::new(a, b, c, d), u16::from_be_bytes([high, low]))
        };
        let frontends = self.frontends.iter().map(Result::unwrap);
        frontends
            .map(|(key, index)| {
                let cell = Cell::from_word(self.cells.get(&index, 0).unwrap());
                let slots = cell.offset()..cell.offset() + cell.count();
                let backends = slots.map(|slot| backend(self.slots.get(&slot, 0).unwrap()[0]));
                (key, backends.collect())
            })
            .collect()
    }

    /// Returns the number of backends in the table, reachable or not.
    pub(crate) fn backend_count(&self) -> usize {
        let backends = self.backends.iter().map(Result::unwrap);
        backends.filter(|backend| backend[8..10] != [0, 0]).count()
    }
}

/// Prefix of the names of tables of programs: each agent pins one of its own.
pub(crate) const PROGRAMS: &str = "IPV6_PROGRAMS-";

/// The kernel's descriptions of the pinned tables that one agent leaves to the next, by name.
pub(crate) fn infos(pins: &PinDir) -> BTreeMap<String, MapInfo> {
    let entries = fs::read_dir(pins.path().join("maps")).unwrap();
    let infos = entries.map(|entry| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, MapInfo::from_pin(entry.path()).unwrap())
    });
    infos
        .filter(|(name, _)| !name.starts_with(PROGRAMS))
        .collect()
}

/// The kernel's ids of the pinned programs, by name.
pub(crate) fn programs(pins: &PinDir) -> BTreeMap<String, u32> {
    let entries = fs::read_dir(pins.path().join("programs")).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let program = ProgramInfo::from_pin(entry.path()).unwrap();
            (entry.file_name().into_string().unwrap(), program.id())
        })
        .collect()
}

/// The kernel's ids of the pinned links and of the programs that they run, by the links' names.
/// Before Linux 6.6 there are filters in place of links: they have no id of the kernel's, and run
/// the program that is pinned.
pub(crate) fn links(pins: &PinDir) -> BTreeMap<String, (u32, u32)> {
    let entries = fs::read_dir(pins.path().join("links")).unwrap();
    entries
        .map(|entry| {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            if entry.path().is_symlink() {
                let program = ProgramInfo::from_pin(entry.path()).unwrap();
                return (name, (0, program.id()));
            }
            let link = FdLink::from(PinnedLink::from_pin(entry.path()).unwrap());
            let info = link.info().unwrap();
            (name, (info.id(), info.program_id()))
        })
        .collect()
}
