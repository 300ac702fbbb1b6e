//! The root of the cgroups, mounted where it can be seen.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    thread,
};

use nix::{
    mount::{MntFlags, MsFlags, mount, umount2},
    sched::{CloneFlags, setns},
};
use tracing::{info, warn};

/// Its mount point, in our mount namespace. It stays there for the next agent.
pub(super) const PLACE: &str = "/run/shunt/cgroup";

/// The cgroup namespace of the first process that we can see: the host's, if we see its processes.
const HOST: &str = "/proc/1/ns/cgroup";

/// Mounts a cgroup file system of version 2, as the host sees it. Returns where.
///
/// # Errors
///
/// If the kernel refuses, or the host's namespace is closed to us.
pub(super) fn mount_of_host() -> io::Result<PathBuf> {
    let place = Path::new(PLACE);
    fs::create_dir_all(place)?;
    // What is mounted shows the cgroup namespace of the thread that mounts it.
    let mounted = || {
        if let Err(error) = File::open(HOST)
            .and_then(|host| setns(host, CloneFlags::CLONE_NEWCGROUP).map_err(io::Error::from))
        {
            warn!(%error, "the cgroup namespace of the host ({HOST}) cannot be entered");
        }
        let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some("cgroup2"), place, Some("cgroup2"), flags, None::<&str>)
    };
    match thread::scope(|scope| scope.spawn(mounted).join()) {
        Ok(mounted) => mounted?,
        Err(panic) => std::panic::resume_unwind(panic),
    }
    info!("mounted the cgroup file system at {PLACE}");
    Ok(place.to_owned())
}

/// Mounts the root that is mounted at `root` once more. Returns where.
///
/// # Errors
///
/// If the kernel refuses.
pub(super) fn mount_again(root: &Path) -> io::Result<PathBuf> {
    let place = Path::new(PLACE);
    fs::create_dir_all(place)?;
    let (none, flags) = (None::<&str>, MsFlags::MS_BIND);
    mount(Some(root), place, none, flags, none)?;
    info!(root = %root.display(), "mounted the root of the cgroups at {PLACE} too");
    Ok(place.to_owned())
}

/// Takes a mount of ours back.
pub(super) fn unmount(place: &Path) {
    match umount2(place, MntFlags::MNT_DETACH) {
        Ok(()) => info!(place = %place.display(), "unmounted: it does not show the root"),
        Err(error) => warn!(%error, place = %place.display(), "a mount stays"),
    }
}
