//! Which version of the tables is pinned, and whether this agent can adopt them.

use std::path::Path;

use aya::maps::{Array, Map, MapData, MapInfo};
use shunt_common::registry;

use crate::pins::{
    directory::{LAYOUT, MAPS, Pins, list},
    error::PinError,
};

/// How a table that is pinned has to be laid out.
#[derive(Debug)]
pub(crate) struct TableLayout {
    /// Which.
    pub(crate) map: registry::Map,
    /// The kernel's number of its type.
    pub(crate) kind: u32,
    /// How long a key is, in bytes.
    pub(crate) key_size: u32,
    /// How long a value is, in bytes.
    pub(crate) value_size: u32,
    /// The flags that it is made with.
    pub(crate) flags: u32,
    /// How many entries it has; `None` if a setting says so, and the pinned one may have another.
    pub(crate) entries: Option<u32>,
    /// What to do with a pinned one that is another.
    pub(crate) misfit: Misfit,
}

/// What becomes of a pinned table that does not fit.
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
    before: Option<Before>,
}

/// The version before, if it can hand over.
#[derive(Debug)]
struct Before {
    version: u64,
    /// The tables that are laid out otherwise since.
    tables: Vec<TableLayout>,
}

/// What is pinned, and can be adopted.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// The tables that have to be copied.
    pub(crate) copied: Vec<registry::Map>,
    /// Whether the version before is to hand over.
    pub(crate) hands_over: bool,
}

/// What the table [`LAYOUT`] says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    /// The version of the layouts.
    version: u64,
    /// 0, or what agents that pinned every map of their object put there: a hash of all of them. It
    /// stays as it is found, so that such an agent can take its own tables back.
    fingerprint: u64,
}

impl Layout {
    /// The tables of state, with their layouts of this version.
    pub(crate) const fn new(version: u64, tables: Vec<TableLayout>) -> Self {
        Self {
            version,
            tables,
            before: None,
        }
    }

    /// As this, and the version before can hand over, in which these `tables` are laid out as is
    /// said here.
    #[must_use]
    pub(crate) fn after(self, version: u64, tables: Vec<TableLayout>) -> Self {
        Self {
            before: Some(Before { version, tables }),
            ..self
        }
    }

    /// The tables.
    pub(crate) fn maps(&self) -> impl Iterator<Item = registry::Map> {
        self.tables.iter().map(|table| table.map)
    }

    /// Removes what else is pinned of tables. It is of another version, whose programs no hook has any
    /// more: nobody goes on writing it. Gives how many tables that were.
    ///
    /// # Errors
    ///
    /// If the file system refuses.
    pub(crate) fn remove_others(&self, pins: &Pins) -> Result<usize, PinError> {
        let ours: Vec<&str> = self.maps().map(|map| map.pin).collect();
        pins.remove_tables_but(&ours)
    }

    /// Makes sure that what is pinned can be adopted: each table is of this layout, or not there
    /// yet.
    ///
    /// # Errors
    ///
    /// If a table is another, or the version of all.
    pub(crate) fn check(&self, pins: &Pins) -> Result<Found, PinError> {
        let mut result = Found::default();
        let path = pins.map(LAYOUT);
        if path.exists() {
            result.hands_over = self.check_stamp(pins, read(&path)?)?;
        } else if list(&pins.dir.join(MAPS))?.is_empty() {
            let stamp = Stamp {
                version: self.version,
                fingerprint: 0,
            };
            write(&path, stamp)?;
        } else {
            let difference = "do not say which layout they have".to_owned();
            return Err(incompatible(pins, difference));
        }
        let before = self.before.iter().filter(|_| result.hands_over);
        for table in self
            .tables
            .iter()
            .chain(before.flat_map(|before| &before.tables))
        {
            let Some(info) = pins.map_info(table.map.pin)? else {
                continue;
            };
            match (table.difference(&info), table.misfit) {
                (None, _) => {}
                (Some(_), Misfit::Copied) => result.copied.push(table.map),
                (Some(difference), Misfit::Refused) => {
                    let name = table.map.pin;
                    let difference = format!("have another {name} ({difference})");
                    return Err(incompatible(pins, difference));
                }
            }
        }
        Ok(result)
    }

    /// Whether the version before is to hand over; `Err` if what is found is neither its nor ours.
    fn check_stamp(&self, pins: &Pins, found: Option<Stamp>) -> Result<bool, PinError> {
        let before = self.before.as_ref().map(|before| before.version);
        let found = match found {
            Some(Stamp { version, .. }) if version == self.version => return Ok(false),
            Some(Stamp { version, .. }) if Some(version) == before => return Ok(true),
            Some(Stamp { version, .. }) => format!("layout {version}"),
            None => "an unknown layout".to_owned(),
        };
        let difference = format!("have {found}, not {}", self.version);
        Err(incompatible(pins, difference))
    }
}

impl Layout {
    /// Says of what is pinned that it is of this version.
    ///
    /// # Errors
    ///
    /// If the kernel refuses.
    pub(crate) fn stamp(&self, pins: &Pins) -> Result<(), PinError> {
        let path = pins.map(LAYOUT);
        let failed = || PinError::object("writing the table", &path);
        let fingerprint = read(&path)?.map_or(0, |stamp| stamp.fingerprint);
        let data = MapData::from_pin(&path).map_err(failed())?;
        let mut array = Array::<_, [u64; 2]>::try_from(Map::Array(data)).map_err(failed())?;
        array
            .set(0, [self.version, fingerprint], 0)
            .map_err(failed())
    }
}

impl TableLayout {
    /// What is other than it has to be, in words.
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

/// What the table at `path` says; `None` if it is another kind of table.
fn read(path: &Path) -> Result<Option<Stamp>, PinError> {
    let failed = || PinError::object("reading the table", path);
    let data = MapData::from_pin(path).map_err(failed())?;
    let Ok(array) = Array::<_, [u64; 2]>::try_from(Map::Array(data)) else {
        return Ok(None);
    };
    let [version, fingerprint] = array.get(&0, 0).map_err(failed())?;
    Ok(Some(Stamp {
        version,
        fingerprint,
    }))
}

/// Pins a table that says `stamp`; it has its content before it has its name.
fn write(path: &Path, stamp: Stamp) -> Result<(), PinError> {
    let failed = || PinError::object("pinning the table", path);
    let Stamp {
        version,
        fingerprint,
    } = stamp;
    let mut array = Array::<_, [u64; 2]>::create(1, 0).map_err(failed())?;
    array.set(0, [version, fingerprint], 0).map_err(failed())?;
    array
        .pin(path)
        .map_err(PinError::object("pinning the table", path))
}
