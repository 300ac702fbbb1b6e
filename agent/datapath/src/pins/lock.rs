//! One agent a pin directory.

use std::{
    fs::{self, File, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
    unistd::geteuid,
};
use shunt_files::Holder;

use crate::pins::error::PinError;

/// A lock on the directory itself: it ends with the process, leaves no file, and holds for
/// everyone who sees the directory, in whatever container. A bpf file system has no files that could be locked.
///
/// Any process that can open the directory can hold the lock, so the directory has mode 0700.
#[derive(Debug)]
pub(super) struct Lock(Flock<File>);

impl Lock {
    /// Takes the directory, which exists, unless another process has it.
    pub(super) fn take(dir: &Path) -> Result<Self, PinError> {
        let open = || File::open(dir).map_err(PinError::io("opening", dir));
        let in_use = |file: &File| PinError::InUse {
            path: dir.to_owned(),
            holder: Holder::of(file),
        };
        match Flock::lock(open()?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                // A cleanup may have removed it between the opening and the locking.
                let ours = Self(lock);
                if ours.is_of(dir)? {
                    Ok(ours)
                } else {
                    Err(in_use(&ours.0))
                }
            }
            Err((file, Errno::EWOULDBLOCK)) => Err(in_use(&file)),
            Err((_, error)) => Err(PinError::io("locking", dir)(io::Error::from(error))),
        }
    }

    /// Returns whether it is the directory at `dir` that is locked: another one may be there since, or hide it.
    pub(super) fn is_of(&self, dir: &Path) -> Result<bool, PinError> {
        let ours = self.0.metadata().map_err(PinError::io("looking at", dir))?;
        match fs::metadata(dir) {
            Ok(there) => Ok((there.dev(), there.ino()) == (ours.dev(), ours.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(PinError::io("looking at", dir)(error)),
        }
    }

    /// Closes the directory to other users, if it is this user's. Versions before made it with mode 0755.
    pub(super) fn close_to_others(&self, dir: &Path) -> Result<(), PinError> {
        let there = self.0.metadata().map_err(PinError::io("looking at", dir))?;
        let rights_of_others = there.mode() & 0o077;
        if there.uid() != geteuid().as_raw() || rights_of_others == 0 {
            return Ok(());
        }
        let mode = Permissions::from_mode(0o700);
        self.0
            .set_permissions(mode)
            .map_err(PinError::io("changing the mode of", dir))
    }
}
