//! Removing everything that is pinned.

use std::{fs, path::Path};

use crate::pins::{
    bpffs,
    directory::{HANDED_OVER, LAYOUT, LINKS, MAPS, PROGRAMS, list, remove, remove_folder},
    error::PinError,
    lock::Lock,
};

/// Counts of removed objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Links: hooks of interfaces, or of a cgroup, that had a program.
    pub links: usize,
    /// Programs.
    pub programs: usize,
    /// Tables.
    pub maps: usize,
}

/// Removes what is pinned at `dir`, each link by `release`, and with it the translation; `None` if
/// there is no such directory.
///
/// # Errors
///
/// If an agent uses it, if it is not on a bpffs, or holds what no agent has put there.
pub(crate) fn cleanup(
    dir: &Path,
    release: fn(&Path) -> Result<(), PinError>,
) -> Result<Option<Removed>, PinError> {
    if !dir.exists() {
        return Ok(None);
    }
    if !bpffs::is_bpffs(dir)? {
        return Err(PinError::NotBpffs(dir.to_owned()));
    }
    let _lock = Lock::take(dir)?;
    // Links first, so that no packet meets a table that is gone; the layout is the last of the
    // tables, so that a cleanup that is killed can be begun again.
    let removed = Removed {
        links: empty(&dir.join(LINKS), release)?,
        programs: empty(&dir.join(PROGRAMS), remove)?,
        maps: empty(&dir.join(MAPS), remove)?,
    };
    remove_folder(&dir.join(HANDED_OVER))?;
    fs::remove_dir(dir).map_err(PinError::io("removing the directory", dir))?;
    Ok(Some(removed))
}

/// Removes a directory with its entries, each by `remove`; returns how many they were.
fn empty(folder: &Path, remove: fn(&Path) -> Result<(), PinError>) -> Result<usize, PinError> {
    let mut entries = list(folder)?;
    entries.sort_by_key(|entry| entry.ends_with(LAYOUT));
    for entry in &entries {
        remove(entry)?;
    }
    if folder.exists() {
        fs::remove_dir(folder).map_err(PinError::io("removing the directory", folder))?;
    }
    Ok(entries.len())
}
