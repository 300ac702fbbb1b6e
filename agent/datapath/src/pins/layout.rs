//! The version of the pinned tables, and the check whether this agent can adopt them.

use std::path::Path;

use aya::maps::{Array, Map, MapData, MapInfo};
use shunt_common::registry;

use crate::pins::{
    directory::{LAYOUT, MAPS, Pins, list},
    error::PinError,
    held::{Held, Repair},
};

/// Layout that a pinned table must have.
#[derive(Debug)]
pub(crate) struct TableLayout {
    /// The table.
    pub(crate) map: registry::Map,
    /// The kernel's number of its type.
    pub(crate) kind: u32,
    /// Length of a key, in bytes.
    pub(crate) key_size: u32,
    /// Length of a value, in bytes.
    pub(crate) value_size: u32,
    /// The flags that it is made with.
    pub(crate) flags: u32,
    /// Number of entries; `None` if a setting gives it, and the pinned one may have another.
    pub(crate) entries: Option<u32>,
    /// Treatment of a pinned one that differs.
    pub(crate) misfit: Misfit,
}

/// Treatment of a pinned table that does not fit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// It is refused, and with it all that is pinned.
    Refused,
    /// A new one replaces it, with what can be copied.
    Copied,
}

/// The tables that are pinned, as this version has them.
#[derive(Debug)]
pub(crate) struct Layout {
    version: u64,
    tables: Vec<TableLayout>,
    /// The pinned table [`LAYOUT`], once it was checked.
    stamp: Option<Held>,
}

/// The words of the table [`LAYOUT`]: the version of the layouts, and 0 or a hash of all maps. Agents
/// that pinned every map of their object wrote that hash. The second word stays as it is found.
type Stamp = [u64; 2];

impl Layout {
    /// The tables of state, with their layouts of this version.
    pub(crate) const fn new(version: u64, tables: Vec<TableLayout>) -> Self {
        Self {
            version,
            tables,
            stamp: None,
        }
    }

    /// The tables.
    pub(crate) fn maps(&self) -> impl Iterator<Item = registry::Map> {
        self.tables.iter().map(|table| table.map)
    }

    /// Removes what else is pinned of tables. It is of another version, whose programs no hook has any
    /// more: no program goes on writing it. Returns the number of those tables.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub(crate) fn remove_others(&self, pins: &Pins) -> Result<usize, PinError> {
        let ours: Vec<&str> = self.maps().map(|map| map.pin).collect();
        pins.remove_tables_but(&ours)
    }

    /// Makes sure that the pinned tables can be adopted: each is of this layout, or not there
    /// yet. Returns the tables that have to be copied.
    ///
    /// # Errors
    ///
    /// If a table is another, or the version of all.
    pub(crate) fn check(&mut self, pins: &Pins) -> Result<Vec<registry::Map>, PinError> {
        let mut copied = Vec::new();
        let path = pins.map(LAYOUT);
        if path.exists() {
            self.check_stamp(pins, read(&path)?)?;
        } else if list(&pins.dir.join(MAPS))?.is_empty() {
            write(&path, [self.version, 0])?;
        } else {
            let difference = "do not say which layout they have".to_owned();
            return Err(incompatible(pins, difference));
        }
        self.stamp = Some(Held::open(&path)?);
        for table in &self.tables {
            let Some(info) = pins.map_info(table.map.pin)? else {
                continue;
            };
            match (table.difference(&info), table.misfit) {
                (None, _) => {}
                (Some(_), Misfit::Copied) => copied.push(table.map),
                (Some(difference), Misfit::Refused) => {
                    let name = table.map.pin;
                    let difference = format!("have another {name} ({difference})");
                    return Err(incompatible(pins, difference));
                }
            }
        }
        Ok(copied)
    }

    /// Pins [`LAYOUT`] again if it is not pinned any more. To be called before tables are pinned again.
    pub(crate) fn keep_stamp(&self, repair: &mut Repair) {
        if let Some(stamp) = &self.stamp {
            stamp.keep(repair);
        }
    }

    /// Makes sure that what is found is of this version.
    fn check_stamp(&self, pins: &Pins, found: Option<Stamp>) -> Result<(), PinError> {
        let found = match found {
            Some([version, _]) if version == self.version => return Ok(()),
            Some([version, _]) => format!("layout {version}"),
            None => "an unknown layout".to_owned(),
        };
        let difference = format!("have {found}, not {}", self.version);
        Err(incompatible(pins, difference))
    }
}

impl TableLayout {
    /// Describes what is other than it has to be, in words.
    fn difference(&self, info: &MapInfo) -> Option<String> {
        let kind = info.map_type().map_or(0, |kind| kind as u32);
        let found = [
            ("type", kind, self.kind),
            ("key size", info.key_size(), self.key_size),
            ("value size", info.value_size(), self.value_size),
            ("flags", info.map_flags(), self.flags),
            (
                "entries",
                info.max_entries(),
                self.entries.unwrap_or_else(|| info.max_entries()),
            ),
        ];
        let (what, found, ours) = found.into_iter().find(|(_, found, ours)| found != ours)?;
        Some(format!("{what} {found}, not {ours}"))
    }
}

fn incompatible(pins: &Pins, difference: String) -> PinError {
    PinError::Incompatible {
        path: pins.dir.clone(),
        difference,
    }
}

/// Returns the stamp in the table at `path`; `None` if it is another kind of table.
fn read(path: &Path) -> Result<Option<Stamp>, PinError> {
    let failed = || PinError::object("reading the table", path);
    let data = MapData::from_pin(path).map_err(failed())?;
    let Ok(array) = Array::<_, Stamp>::try_from(Map::Array(data)) else {
        return Ok(None);
    };
    array.get(&0, 0).map(Some).map_err(failed())
}

/// Pins a table with `stamp`; it has its content before it has its name.
fn write(path: &Path, stamp: Stamp) -> Result<(), PinError> {
    let failed = || PinError::object("pinning the table", path);
    let mut array = Array::<_, Stamp>::create(1, 0).map_err(failed())?;
    array.set(0, stamp, 0).map_err(failed())?;
    array
        .pin(path)
        .map_err(PinError::object("pinning the table", path))
}
