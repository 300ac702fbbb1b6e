//! Removing everything that is pinned.

use std::{fs, path::Path};

use super::{LINKS, MAPS, PROGRAMS, PinError, bpffs, list, lock::Lock};

/// How much was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Links: hooks of interfaces that had a program.
    pub links: usize,
    /// Programs.
    pub programs: usize,
    /// Tables.
    pub maps: usize,
}

/// Removes what is pinned at `dir`, and with it the translation; `None` if there is no such
/// directory.
///
/// # Errors
///
/// If an agent uses it, if it is not on a bpffs, or holds what no agent has put there.
pub fn cleanup(dir: &Path) -> Result<Option<Removed>, PinError> {
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
        links: empty(&dir.join(LINKS))?,
        programs: empty(&dir.join(PROGRAMS))?,
        maps: empty(&dir.join(MAPS))?,
    };
    fs::remove_dir(dir).map_err(PinError::io("removing the directory", dir))?;
    Ok(Some(removed))
}

/// Removes a directory with its entries; gives how many they were.
fn empty(folder: &Path) -> Result<usize, PinError> {
    let entries = list(folder)?;
    for entry in &entries {
        super::remove(entry)?;
    }
    if folder.exists() {
        fs::remove_dir(folder).map_err(PinError::io("removing the directory", folder))?;
    }
    Ok(entries.len())
}
