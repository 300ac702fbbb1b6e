//! Which version of the tables is pinned.

use std::path::Path;

use aya::maps::{Array, Map, MapData, MapInfo};
use aya_obj::{EbpfSectionKind, Object};

use crate::{
    error::DatapathError,
    maps::{table_names::REDIRECT_TABLES, table_sizes::SizedTable},
    pins::{
        directory::{self, Pins, list, remove},
        error::PinError,
    },
    publish::fingerprint::fingerprint,
};

/// Changes whenever the meaning of a pinned table does in a way that its sizes do not tell.
const VERSION: u64 = 3;

/// The table with the version and the fingerprint of the others. It is pinned before them and
/// removed after them, so wherever they are, it is.
const LAYOUT: &str = "LAYOUT";

/// A table that begins anew when it does not fit, instead of being refused.
const COUNTERS: &str = "COUNTERS";

/// What the object says of one of its tables.
#[derive(Debug)]
struct Table {
    name: String,
    kind: u32,
    key_size: u32,
    value_size: u32,
    flags: u32,
    entries: u32,
    /// Whether a flag of the agent sets the number of entries.
    sized: bool,
}

/// The tables that are pinned: all of the object but its constants, its log and those of
/// `--redirect`.
#[derive(Debug)]
pub struct Layout(Vec<Table>);

impl Layout {
    /// The tables of `object`, of which `sized` have the sizes that flags say.
    pub fn of(object: &[u8], sized: &[SizedTable]) -> Result<Self, DatapathError> {
        let object = Object::parse(object)
            .map_err(|error| DatapathError::Load(aya::EbpfError::ParseError(error)))?;
        let maps = object.maps.iter().filter(|(name, map)| {
            matches!(
                map.section_kind(),
                EbpfSectionKind::Maps | EbpfSectionKind::BtfMaps
            ) && *name != "AYA_LOGS"
                && !REDIRECT_TABLES.contains(&name.as_str())
        });
        let mut tables: Vec<Table> = maps
            .map(|(name, map)| Table {
                kind: map.map_type(),
                key_size: map.key_size(),
                value_size: map.value_size(),
                flags: map.map_flags(),
                entries: map.max_entries(),
                sized: sized.iter().any(|table| table.name == name),
                name: name.clone(),
            })
            .collect();
        tables.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(Self(tables))
    }

    /// The names of the tables.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().map(|table| table.name.as_str())
    }

    /// Makes sure that what is pinned can be adopted: the whole is of this layout, or nothing is
    /// there yet.
    pub fn check(&self, pins: &Pins) -> Result<(), PinError> {
        let incompatible = |difference: String| PinError::Incompatible {
            path: pins.dir.clone(),
            difference,
        };
        let ours = [VERSION, self.fingerprint()];
        let path = pins.map(LAYOUT);
        if path.exists() {
            let found = read(&path)?;
            if found != Some(ours) {
                let text =
                    |[version, fingerprint]: [u64; 2]| format!("{version}/{fingerprint:016x}");
                let found = found.map_or_else(
                    || "an unknown layout".to_owned(),
                    |found| format!("layout {}", text(found)),
                );
                return Err(incompatible(format!("have {found}, not {}", text(ours))));
            }
        } else if list(&pins.dir.join(directory::MAPS))?.is_empty() {
            write(&path, ours)?;
        } else {
            return Err(incompatible("do not say which layout they have".to_owned()));
        }
        for table in &self.0 {
            let path = pins.map(&table.name);
            if !path.exists() {
                continue;
            }
            let info = MapInfo::from_pin(&path)
                .map_err(PinError::object("looking at the table", &path))?;
            if !table.is_like(&info) {
                if table.name != COUNTERS {
                    return Err(incompatible(format!("have another {}", table.name)));
                }
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// Of what the tables are.
    fn fingerprint(&self) -> u64 {
        let tables = self.0.iter().filter(|table| table.name != COUNTERS);
        let bytes = tables.flat_map(|table| {
            let Table {
                name,
                kind,
                key_size,
                value_size,
                flags,
                entries,
                sized,
            } = table;
            let entries = if *sized { 0 } else { *entries };
            format!("{name} {kind} {key_size} {value_size} {flags} {entries}\n").into_bytes()
        });
        fingerprint(bytes)
    }
}

impl Table {
    fn is_like(&self, info: &MapInfo) -> bool {
        info.map_type().is_ok_and(|kind| kind as u32 == self.kind)
            && info.key_size() == self.key_size
            && info.value_size() == self.value_size
            && info.map_flags() == self.flags
            && (self.sized || info.max_entries() == self.entries)
    }
}

/// What the table at `path` says; `None` if it is another kind of table.
fn read(path: &Path) -> Result<Option<[u64; 2]>, PinError> {
    let failed = || PinError::object("reading the table", path);
    let data = MapData::from_pin(path).map_err(failed())?;
    let Ok(array) = Array::<_, [u64; 2]>::try_from(Map::Array(data)) else {
        return Ok(None);
    };
    array.get(&0, 0).map(Some).map_err(failed())
}

/// Pins a table that says `layout`; it has its content before it has its name.
fn write(path: &Path, layout: [u64; 2]) -> Result<(), PinError> {
    let failed = || PinError::object("pinning the table", path);
    let mut array = Array::<_, [u64; 2]>::create(1, 0).map_err(failed())?;
    array.set(0, layout, 0).map_err(failed())?;
    array
        .pin(path)
        .map_err(PinError::object("pinning the table", path))
}
