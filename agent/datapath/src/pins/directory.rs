//! The directory: what is where in it.

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use aya::{
    maps::{MapData, MapInfo},
    programs::Program,
};

use crate::pins::{bpffs, error::PinError, lock::Lock, namespace};

/// The folder of the tables.
pub(crate) const MAPS: &str = "maps";
/// The table with the version of the others. It is pinned before them and removed after them, so
/// wherever they are, it is.
pub(super) const LAYOUT: &str = "LAYOUT";
/// Prefix of the names of tables of programs of IPv6 there: there may be several.
const IPV6: &str = "IPV6_PROGRAMS-";
/// The folder of the programs.
pub(crate) const PROGRAMS: &str = "programs";
/// The folder of the links.
pub(crate) const LINKS: &str = "links";
/// The folder of tables that other programs of the same agent are just given.
pub(super) const HANDED_OVER: &str = "handed-over";

/// Returns whether tables are pinned at this directory, by any process.
pub fn has_tables(directory: &Path) -> bool {
    directory.join(MAPS).join(LAYOUT).exists()
}

/// A pin directory that is ours until this is dropped.
#[derive(Debug)]
pub(crate) struct Pins {
    pub(super) dir: PathBuf,
    /// The inode of our network namespace: an interface's index means nothing in another one.
    namespace: u64,
    lock: Lock,
}

/// A pinned link.
#[derive(Debug)]
pub(crate) struct LinkPin {
    /// Path of its pin.
    pub path: PathBuf,
    /// Its place, by its name; `None` if the name shows none.
    pub place: Option<Place>,
}

/// Of what a link is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// Of a hook of an interface.
    Interface {
        /// The inode of the interface's network namespace.
        namespace: u64,
        /// The interface's index in it.
        index: u32,
        /// The hook's name.
        hook: String,
    },
    /// Of a hook of a cgroup, by the hook's name.
    Cgroup(String),
}

/// Prefix of the names of a cgroup's links. Agents that know no such links take them for those
/// of another network namespace, and remove them.
const CGROUP: &str = "cgroup-";

impl Pins {
    /// Makes the directory, if need be with a bpffs for it, and takes it.
    ///
    /// # Errors
    ///
    /// If it cannot be made or another process has it.
    pub(crate) fn open(dir: &Path) -> Result<Self, PinError> {
        bpffs::ensure(dir)?;
        let lock = Lock::take(dir)?;
        // An agent's own. A directory that a user has made keeps its mode.
        if has_tables(dir) {
            lock.close_to_others(dir)?;
        }
        make_folders(dir)?;
        let left = dir.join(HANDED_OVER);
        remove_folder(&left)?;
        let ours = Path::new(namespace::OURS);
        let namespace = nix::sys::stat::stat(ours)
            .map_err(io::Error::from)
            .map_err(PinError::io("looking at", ours))?
            .st_ino;
        Ok(Self {
            dir: dir.to_owned(),
            namespace,
            lock,
        })
    }

    /// Makes the directory again, and takes it, if another one is at its path, or none: it was removed, or a mount hides
    /// it. To be called before [`Repair`](crate::pins::held::Repair) pins what is held.
    ///
    /// # Errors
    ///
    /// If it cannot be made or another process has it.
    pub(crate) fn restore(&mut self) -> Result<(), PinError> {
        if !self.lock.is_of(&self.dir)? {
            bpffs::ensure(&self.dir)?;
            self.lock = Lock::take(&self.dir)?;
        }
        make_folders(&self.dir)
    }

    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the directory in which tables are pinned while other programs of ours are given them.
    pub(crate) fn handed_over(&self) -> PathBuf {
        self.dir.join(HANDED_OVER)
    }

    /// Returns the path at which the table of this name is pinned, or is to be.
    pub(crate) fn map(&self, name: &str) -> PathBuf {
        self.dir.join(MAPS).join(name)
    }

    /// The table that is pinned under this name.
    pub(crate) fn open_map(&self, name: &str) -> Result<MapData, PinError> {
        let path = self.map(name);
        MapData::from_pin(&path).map_err(PinError::object("opening the table", &path))
    }

    /// Returns the kernel's description of the table that is pinned under this name, if one is.
    pub(crate) fn map_info(&self, name: &str) -> Result<Option<MapInfo>, PinError> {
        let path = self.map(name);
        if !path.exists() {
            return Ok(None);
        }
        let info = MapInfo::from_pin(&path);
        info.map(Some)
            .map_err(PinError::object("looking at the table", &path))
    }

    /// Returns the path for the link of the hook of this name of the interface with this index.
    pub(crate) fn link(&self, index: u32, hook: &str) -> PathBuf {
        let name = format!("{}-{index}-{hook}", self.namespace);
        self.dir.join(LINKS).join(name)
    }

    /// Returns the path for the link of the cgroup's hook of this name.
    pub(crate) fn cgroup_link(&self, hook: &str) -> PathBuf {
        self.dir.join(LINKS).join(format!("{CGROUP}{hook}"))
    }

    /// Returns whether an interface's index in the network namespace with this inode means something to us.
    pub(crate) const fn is_ours(&self, namespace: u64) -> bool {
        self.namespace == namespace
    }

    /// The links that are pinned.
    pub(crate) fn links(&self) -> Result<Vec<LinkPin>, PinError> {
        let paths = list(&self.dir.join(LINKS))?.into_iter();
        Ok(paths
            .map(|path| LinkPin {
                place: place(&path),
                path,
            })
            .collect())
    }

    /// Pins a table in place of the one that has the name, if any.
    pub(crate) fn replace_map(&self, name: &str, table: &MapData) -> Result<(), PinError> {
        let path = self.map(name);
        let new = self.map(&draft(name));
        remove(&new)?;
        table
            .pin(&new)
            .map_err(PinError::object("pinning the table", &new))?;
        fs::rename(&new, &path).map_err(PinError::io("replacing the table", &path))
    }

    /// Gives a table the name of another one, which loses it.
    pub(crate) fn rename_map(&self, from: &str, to: &str) -> Result<(), PinError> {
        let to = self.map(to);
        fs::rename(self.map(from), &to).map_err(PinError::io("replacing the table", &to))
    }

    /// Removes the pin of a table; one that is not there is no error.
    pub(crate) fn remove_map(&self, name: &str) -> Result<(), PinError> {
        remove(&self.map(name))
    }

    /// Removes the tables that are not to be `kept`, by name, but for those of programs. Returns how many they were.
    pub(super) fn remove_tables_but(&self, kept: &[&str]) -> Result<usize, PinError> {
        let mut removed = 0;
        for path in list(&self.dir.join(MAPS))? {
            let name = path.file_name().and_then(OsStr::to_str);
            let is_kept =
                |name: &str| name == LAYOUT || ipv6_number(name).is_some() || kept.contains(&name);
            if !name.is_some_and(is_kept) {
                remove(&path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }

    /// Pins a program in place of the one that has the name, if any.
    pub(crate) fn pin_program(&self, name: &str, program: &mut Program) -> Result<(), PinError> {
        let path = self.program(name);
        // A bpffs takes no names with dots.
        let new = self.dir.join(PROGRAMS).join(format!("{name}-new"));
        remove(&new)?;
        program
            .pin(&new)
            .map_err(PinError::object("pinning the program", &new))?;
        fs::rename(&new, &path).map_err(PinError::io("replacing the program", &path))
    }

    /// Pins a table of the programs of IPv6 beside those that are pinned, since their programs may still run. Returns
    /// the name.
    pub(crate) fn pin_ipv6(&self, table: &MapData) -> Result<String, PinError> {
        let last = self.ipv6()?.into_iter().map(|(number, _)| number).max();
        let name = format!("{IPV6}{}", last.map_or(0, |last| last.wrapping_add(1)));
        let path = self.map(&name);
        remove(&path)?;
        table
            .pin(&path)
            .map_err(PinError::object("pinning the table", &path))?;
        Ok(name)
    }

    /// Removes the pins of the tables of the programs of IPv6 that are not to be `kept`, by name.
    pub(crate) fn remove_ipv6_but(&self, kept: &[&str]) -> Result<(), PinError> {
        for (_, path) in self.ipv6()? {
            let name = path.file_name().and_then(OsStr::to_str);
            if !name.is_some_and(|name| kept.contains(&name)) {
                remove(&path)?;
            }
        }
        Ok(())
    }

    /// The pinned tables of the programs of IPv6, by number.
    fn ipv6(&self) -> Result<Vec<(u32, PathBuf)>, PinError> {
        let number = |path: PathBuf| {
            let number = ipv6_number(path.file_name().and_then(OsStr::to_str)?)?;
            Some((number, path))
        };
        let paths = list(&self.dir.join(MAPS))?.into_iter();
        Ok(paths.filter_map(number).collect())
    }

    /// Returns the path at which the program of this name is pinned, or is to be.
    pub(crate) fn program(&self, name: &str) -> PathBuf {
        self.dir.join(PROGRAMS).join(name)
    }

    /// Removes the pin of a program; one that is not there is no error.
    pub(crate) fn remove_program(&self, name: &str) -> Result<(), PinError> {
        remove(&self.program(name))
    }
}

/// Makes the folders in the directory that are not there.
fn make_folders(dir: &Path) -> Result<(), PinError> {
    for folder in [MAPS, PROGRAMS, LINKS] {
        let folder = dir.join(folder);
        fs::create_dir_all(&folder).map_err(PinError::io("making the directory", &folder))?;
    }
    Ok(())
}

/// Returns the number in the name of a table of programs of IPv6.
fn ipv6_number(name: &str) -> Option<u32> {
    name.strip_prefix(IPV6)?.parse().ok()
}

/// As a table is pinned that is to take the place of the one with this name.
pub(crate) fn draft(name: &str) -> String {
    format!("{name}-new")
}

/// Returns the place that the name of a link shows.
pub(crate) fn place(path: &Path) -> Option<Place> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    if let Some(hook) = name.strip_prefix(CGROUP) {
        return Some(Place::Cgroup(hook.to_owned()));
    }
    let mut parts = name.splitn(3, '-');
    let namespace = parts.next()?.parse().ok()?;
    let index = parts.next()?.parse().ok()?;
    Some(Place::Interface {
        namespace,
        index,
        hook: parts.next()?.to_owned(),
    })
}

/// Removes a pin; one that is not there is no error.
pub(crate) fn remove(path: &Path) -> Result<(), PinError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(PinError::io("removing", path)),
    }
}

/// The entries of a directory, sorted; none if there is no directory.
pub(crate) fn list(folder: &Path) -> Result<Vec<PathBuf>, PinError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(PinError::io("listing", folder))?,
    };
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(PinError::io("listing", folder))?;
    paths.sort();
    Ok(paths)
}

/// Removes a folder with what is pinned there, if there is one.
pub(super) fn remove_folder(folder: &Path) -> Result<(), PinError> {
    if !folder.exists() {
        return Ok(());
    }
    for entry in list(folder)? {
        remove(&entry)?;
    }
    fs::remove_dir(folder).map_err(PinError::io("removing the directory", folder))
}
