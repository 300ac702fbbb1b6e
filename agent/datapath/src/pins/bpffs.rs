//! The file system that pins are on.

use std::{io, path::Path};

use nix::{
    mount::{MsFlags, mount, umount},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};
use shunt_files::{LockFile, make_folder};
use tracing::info;

use crate::pins::{error::PinError, lasting};

/// Mount point in every distribution.
const USUAL: &str = "/sys/fs/bpf";

/// The lock of those that mount it, in a directory that only root can write to. Any user can open, and so
/// lock, the directory at [`USUAL`] itself.
const LOCK: &str = "/run/shunt/bpffs.lock";

/// Makes the directory `dir` on a bpffs; mounts one at the usual place if `dir` is there and it
/// is missing. Refuses one that would end with the agent.
pub(crate) fn ensure(dir: &Path) -> Result<(), PinError> {
    let is_new = !is_bpffs(dir)? && dir.starts_with(USUAL) && mount_at_usual()?;
    if !is_bpffs(dir)? {
        return Err(PinError::NotBpffs(dir.to_owned()));
    }
    if let Err(error) = lasting::check(existing(dir), is_new) {
        if is_new {
            umount(USUAL)
                .map_err(io::Error::from)
                .map_err(PinError::io("unmounting", Path::new(USUAL)))?;
        }
        return Err(error);
    }
    if is_new {
        info!("mounted a bpf file system at {USUAL}: there was none");
    }
    make_folder(dir).map_err(PinError::io("making the directory", dir))
}

/// Mounts a bpffs at the usual place, unless there is one. Returns whether it has.
fn mount_at_usual() -> Result<bool, PinError> {
    let usual = Path::new(USUAL);
    let failed = || PinError::io("mounting a bpf file system at", usual);
    // Agents that start at once would mount one over the other's pins.
    let lock = Path::new(LOCK);
    let folder = lock.parent().unwrap_or(usual);
    make_folder(folder).map_err(PinError::io("making the directory", folder))?;
    let _lock = LockFile::take(lock).map_err(|source| PinError::Lock {
        path: usual.to_owned(),
        source,
    })?;
    if is_bpffs(usual)? {
        return Ok(false);
    }
    mount(
        Some("bpf"),
        usual,
        Some("bpf"),
        MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
        Some("mode=700"),
    )
    .map_err(|error| failed()(error.into()))?;
    Ok(true)
}

/// Returns whether `dir`, or the nearest directory above it that exists, is on a bpffs.
pub(super) fn is_bpffs(dir: &Path) -> Result<bool, PinError> {
    let there = existing(dir);
    let there = statfs(there)
        .map_err(io::Error::from)
        .map_err(PinError::io("looking at", there))?;
    Ok(there.filesystem_type() == BPF_FS_MAGIC)
}

/// `dir`, or the nearest directory above it that exists.
fn existing(dir: &Path) -> &Path {
    dir.ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("/"))
}
