//! Links as pins.

use std::path::Path;

use aya::programs::{
    ProgramError,
    links::{FdLink, LinkError, PinnedLink},
    tc::SchedClassifierLink,
    xdp::XdpLink,
};
use nix::errno::Errno;

use crate::pins::{
    directory::remove,
    error::PinError,
    held::{Held, draft, take_name},
};

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

/// Pins a link in place of the one that is pinned at `path`, if any, which ends unless it is held.
pub(crate) fn pin_link(
    link: impl TryInto<FdLink, Error = LinkError>,
    path: &Path,
) -> Result<Held, PinError> {
    let new = draft(path);
    let link: FdLink = link
        .try_into()
        .map_err(PinError::object("pinning the link", &new))?;
    remove(&new)?;
    let pinned = link
        .pin(&new)
        .map_err(PinError::object("pinning the link", &new))?;
    let held = Held::open(&new)?;
    drop(pinned);
    take_name(&new, path)?;
    Ok(held.at(path))
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
