//! Links as pins.

use std::{fs, path::Path};

use aya::programs::{
    ProgramError,
    links::{FdLink, LinkError, PinnedLink},
    tc::SchedClassifierLink,
    xdp::XdpLink,
};
use nix::errno::Errno;

use crate::pins::{directory::remove, error::PinError};

/// The link of TC that is pinned at `path`.
pub(crate) fn open_link(path: &Path) -> Result<SchedClassifierLink, PinError> {
    open(path)
}

/// The link of XDP that is pinned at `path`.
pub(crate) fn open_xdp_link(path: &Path) -> Result<XdpLink, PinError> {
    open(path)
}

fn open<L: TryFrom<FdLink, Error = LinkError>>(path: &Path) -> Result<L, PinError> {
    let link = PinnedLink::from_pin(path).map_err(PinError::object("opening the link", path))?;
    FdLink::from(link)
        .try_into()
        .map_err(PinError::object("opening the link", path))
}

/// Pins a link of TC at `path`, where nothing of ours is.
pub(crate) fn pin_link(
    link: SchedClassifierLink,
    path: &Path,
) -> Result<SchedClassifierLink, PinError> {
    pin(link, path)
}

/// Pins a link of XDP at `path`, where nothing of ours is.
pub(crate) fn pin_xdp_link(link: XdpLink, path: &Path) -> Result<XdpLink, PinError> {
    pin(link, path)
}

fn pin<L>(link: L, path: &Path) -> Result<L, PinError>
where
    L: TryInto<FdLink, Error = LinkError> + TryFrom<FdLink, Error = LinkError>,
{
    let link: FdLink = link
        .try_into()
        .map_err(PinError::object("pinning the link", path))?;
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

/// Returns whether a system call failed because the link's interface is gone (`tcx_link_update` in
/// `kernel/bpf/tcx.c`).
pub(crate) fn is_dead(error: &ProgramError) -> bool {
    match error {
        ProgramError::SyscallError(error) => {
            error.io_error.raw_os_error() == Some(Errno::ENOLINK as i32)
        }
        _ => false,
    }
}
