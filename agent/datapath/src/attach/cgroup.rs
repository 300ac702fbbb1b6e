//! The cgroup whose processes' sockets the programs see.
//!
//! A program at a cgroup is for the processes in it and below it, so for all of the machine it has
//! to be at the true root. A process in a cgroup namespace, as in most containers, takes its own
//! cgroup for the root: a program there would be attached without an error, and without effect on
//! anybody else.

use std::{
    fs::File,
    io,
    os::{
        fd::{AsFd, BorrowedFd},
        unix::fs::MetadataExt as _,
    },
    path::{Path, PathBuf},
};

use nix::{
    errno::Errno,
    fcntl::AtFlags,
    sys::{
        stat::fstatat,
        statfs::{CGROUP2_SUPER_MAGIC, statfs},
    },
};
use procfs_core::{FromRead as _, process::MountInfos};
use tracing::warn;

use crate::{attach::cgroup_mount, error::SocketError};

/// The inode of the root's directory, and its id: the first that the kernel gives (`kernfs_create_root`
/// in `fs/kernfs/dir.c`).
const ROOT: u64 = 1;

/// A file of every cgroup.
const FILE: &str = "cgroup.procs";

/// A cgroup of version 2.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
    directory: File,
    id: u64,
}

impl Cgroup {
    /// The cgroup with this directory.
    ///
    /// # Errors
    ///
    /// If it is no cgroup, or cannot be opened.
    pub(crate) fn open(path: &Path) -> Result<Self, SocketError> {
        let failed = |source| SocketError::Cgroup {
            path: path.to_owned(),
            source,
        };
        let directory = File::open(path).map_err(failed)?;
        let there = statfs(path).map_err(|error| failed(error.into()))?;
        if there.filesystem_type() != CGROUP2_SUPER_MAGIC {
            return Err(SocketError::NotCgroup(path.to_owned()));
        }
        let id = directory.metadata().map_err(failed)?.ino();
        Ok(Self {
            path: path.to_owned(),
            directory,
            id,
        })
    }

    /// The true root, if it is mounted or can be; else the cgroup that is taken for it here.
    ///
    /// # Errors
    ///
    /// If no cgroup file system of version 2 is mounted, and none can be.
    pub(crate) fn find() -> Result<Self, SocketError> {
        let mounted = mounted().map_err(SocketError::Mounts)?;
        let mut mounted: Vec<_> = mounted
            .iter()
            .filter_map(|path| Self::open(path).ok())
            .collect();
        if let Some(root) = mounted.iter().position(Self::is_root) {
            return Ok(mounted.swap_remove(root));
        }
        match (cgroup_mount::mount_of_host(), mounted.pop()) {
            (Ok(path), other) => {
                let ours = Self::open(&path)?;
                match other {
                    Some(other) if !ours.is_root() => {
                        cgroup_mount::unmount(&path);
                        Ok(other)
                    }
                    _ => Ok(ours),
                }
            }
            (Err(error), Some(other)) => {
                warn!(%error, "the root of the cgroups cannot be mounted");
                Ok(other)
            }
            (Err(source), None) => Err(SocketError::NoCgroup(source)),
        }
    }

    /// Returns the path of its directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The kernel's number of it.
    pub(crate) const fn id(&self) -> u64 {
        self.id
    }

    /// Returns whether it was removed. What was attached there is detached then, and another cgroup may have its path.
    pub(crate) fn is_gone(&self) -> bool {
        // The directory that is open stays, but the kernel removes its files.
        let file = fstatat(&self.directory, FILE, AtFlags::empty());
        matches!(file, Err(Errno::ENOENT | Errno::ENODEV))
    }

    /// Returns whether it has every process of the machine.
    pub(crate) fn is_root(&self) -> bool {
        self.id == ROOT
    }
}

impl AsFd for Cgroup {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Has the true root at the place that is ours, whether it can be seen elsewhere or not: an agent in a
/// container has that place, but another's cgroup in place of the root that we see. Returns the place;
/// `None` if the root cannot be seen from here.
///
/// # Errors
///
/// If it cannot be mounted.
pub(crate) fn provide_root() -> Result<Option<PathBuf>, SocketError> {
    let place = Path::new(cgroup_mount::PLACE);
    let is_root = |path: &Path| Cgroup::open(path).is_ok_and(|cgroup| cgroup.is_root());
    if is_root(place) {
        return Ok(Some(place.to_owned()));
    }
    let mounted = mounted().map_err(SocketError::Mounts)?;
    match mounted.iter().find(|path| is_root(path)) {
        Some(root) => cgroup_mount::mount_again(root),
        None => cgroup_mount::mount_of_host(),
    }
    .map_err(SocketError::MountRoot)?;
    if !is_root(place) {
        cgroup_mount::unmount(place);
        return Ok(None);
    }
    Ok(Some(place.to_owned()))
}

/// Returns the mount points of cgroup file systems of version 2 in our mount namespace.
fn mounted() -> io::Result<Vec<PathBuf>> {
    let mounts = MountInfos::from_file("/proc/thread-self/mountinfo").map_err(io::Error::other)?;
    let cgroups = mounts
        .0
        .into_iter()
        .filter(|mount| mount.fs_type == "cgroup2");
    Ok(cgroups.map(|mount| mount.mount_point).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_cgroup_is_refused() {
        let error = Cgroup::open(Path::new("/proc")).unwrap_err();
        assert!(matches!(error, SocketError::NotCgroup(_)), "{error}");
        let error = Cgroup::open(Path::new("/no/such/directory")).unwrap_err();
        assert!(error.to_string().contains("/no/such/directory"), "{error}");
    }

    #[test]
    fn the_root_has_no_type() {
        for path in mounted().unwrap() {
            let cgroup = Cgroup::open(&path).unwrap();
            let has_type = path.join("cgroup.type").exists();
            assert_eq!(cgroup.is_root(), !has_type, "{}", path.display());
        }
    }
}
