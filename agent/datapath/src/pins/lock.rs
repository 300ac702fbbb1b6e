//! One agent a pin directory.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg},
};

use crate::pins::error::PinError;

/// A lock on the directory itself: it ends with the process, leaves no file, and holds for
/// everyone who sees the directory, in whatever container.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "held, not used")] Flock<File>);

impl Lock {
    /// Takes the directory, which exists, unless somebody has it.
    pub(super) fn take(dir: &Path) -> Result<Self, PinError> {
        let open = || File::open(dir).map_err(PinError::io("opening", dir));
        match Flock::lock(open()?, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => {
                // A cleanup may have removed it between the opening and the locking.
                let there = fs::metadata(dir).map_err(PinError::io("opening", dir))?;
                let ours = lock.metadata().map_err(PinError::io("opening", dir))?;
                if there.ino() != ours.ino() {
                    return Err(PinError::InUse {
                        path: dir.to_owned(),
                        pid: None,
                    });
                }
                Ok(Self(lock))
            }
            Err((file, Errno::EWOULDBLOCK)) => Err(PinError::InUse {
                path: dir.to_owned(),
                pid: holder(&file),
            }),
            Err((_, error)) => Err(PinError::io("locking", dir)(io::Error::from(error))),
        }
    }
}

/// The process with the lock on `file`, as `/proc/locks` tells (proc_locks(5)).
fn holder(file: &File) -> Option<u32> {
    let inode = file.metadata().ok()?.ino().to_string();
    let device = file.metadata().ok()?.dev();
    let (major, minor) = (nix::sys::stat::major(device), nix::sys::stat::minor(device));
    let place = format!("{major:02x}:{minor:02x}:{inode}");
    let locks = fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let mut words = line.split_whitespace();
        (words.nth(1)? == "FLOCK" && words.nth(3)? == place)
            .then(|| line.split_whitespace().nth(4)?.parse().ok())?
    })
}
