//! The file system that pins are on.

use std::{fs, io, path::Path};

use nix::{
    mount::{MsFlags, mount},
    sys::statfs::{BPF_FS_MAGIC, statfs},
};
use tracing::info;

use super::PinError;

/// Where every distribution mounts it.
const USUAL: &str = "/sys/fs/bpf";

/// Makes the directory `dir` on a bpffs; mounts one at the usual place if `dir` is there and it
/// is missing.
pub(super) fn ensure(dir: &Path) -> Result<(), PinError> {
    if !is_bpffs(dir)? && dir.starts_with(USUAL) && !is_bpffs(Path::new(USUAL))? {
        mount(
            Some("bpf"),
            USUAL,
            Some("bpf"),
            MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC,
            Some("mode=700"),
        )
        .map_err(io::Error::from)
        .map_err(PinError::io(
            "mounting a bpf file system at",
            Path::new(USUAL),
        ))?;
        info!("mounted a bpf file system at {USUAL}: there was none");
    }
    if !is_bpffs(dir)? {
        return Err(PinError::NotBpffs(dir.to_owned()));
    }
    fs::create_dir_all(dir).map_err(PinError::io("making the directory", dir))
}

/// Whether `dir`, or the nearest directory above it that exists, is on a bpffs.
pub(super) fn is_bpffs(dir: &Path) -> Result<bool, PinError> {
    let there = dir
        .ancestors()
        .find(|ancestor| ancestor.exists())
        .unwrap_or(Path::new("/"));
    let there = statfs(there)
        .map_err(io::Error::from)
        .map_err(PinError::io("looking at", there))?;
    Ok(there.filesystem_type() == BPF_FS_MAGIC)
}
