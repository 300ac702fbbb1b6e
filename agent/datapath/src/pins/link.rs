//! Links as pins.

use std::{fs, path::Path};

use aya::programs::{
    ProgramError,
    links::{FdLink, PinnedLink},
    tc::SchedClassifierLink,
};
use nix::errno::Errno;

use crate::pins::{directory::remove, error::PinError};

/// The link that is pinned at `path`.
pub(crate) fn open_link(path: &Path) -> Result<SchedClassifierLink, PinError> {
    let link = PinnedLink::from_pin(path).map_err(PinError::object("opening the link", path))?;
    FdLink::from(link)
        .try_into()
        .map_err(PinError::object("opening the link", path))
}

/// Pins a link at `path`, where nothing of ours is.
pub(crate) fn pin_link(
    link: SchedClassifierLink,
    path: &Path,
) -> Result<SchedClassifierLink, PinError> {
    let link = FdLink::try_from(link).map_err(PinError::object("pinning the link", path))?;
    remove(path)?;
    let link = link
        .pin(path)
        .map_err(PinError::object("pinning the link", path))?;
    FdLink::from(link)
        .try_into()
        .map_err(PinError::object("pinning the link", path))
}

/// Pins a link in place of the one that is pinned at `path`, if any, which is detached.
pub(crate) fn replace_link(link: FdLink, path: &Path) -> Result<(), PinError> {
    let mut new = path.as_os_str().to_owned();
    // A bpffs takes no names with dots.
    new.push("-new");
    let new = Path::new(&new);
    remove(new)?;
    link.pin(new)
        .map_err(PinError::object("pinning the link", new))?;
    fs::rename(new, path).map_err(PinError::io("replacing the link", path))
}

/// Whether a system call failed because the link's interface is gone (`tcx_link_update` in
/// `kernel/bpf/tcx.c`).
pub(crate) fn is_dead(error: &ProgramError) -> bool {
    match error {
        ProgramError::SyscallError(error) => {
            error.io_error.raw_os_error() == Some(Errno::ENOLINK as i32)
        }
        _ => false,
    }
}
