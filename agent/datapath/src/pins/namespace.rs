//! Work in another network namespace.

use std::{
    ffi::OsString,
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::Path,
    thread,
};

use nix::sched::{CloneFlags, setns};

/// The network namespace of the calling thread.
pub(super) const OURS: &str = "/proc/thread-self/ns/net";

/// Does `work` in the network namespace with this inode, on a thread of its own if it is not ours; `None`
/// if no process and no name of `ip netns` leads to one.
///
/// # Errors
///
/// If it cannot be entered.
pub(crate) fn within<T: Send>(
    inode: u64,
    work: impl FnOnce() -> T + Send,
) -> io::Result<Option<T>> {
    // Only another one has to be entered, for which CAP_SYS_ADMIN is needed.
    if fs::metadata(OURS)?.ino() == inode {
        return Ok(Some(work()));
    }
    let Some(file) = find(inode) else {
        return Ok(None);
    };
    let inside = || {
        setns(&file, CloneFlags::CLONE_NEWNET)?;
        Ok(work())
    };
    match thread::scope(|scope| scope.spawn(inside).join()) {
        Ok(done) => done.map(Some),
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

fn find(inode: u64) -> Option<File> {
    let names = entries("/run/netns").map(|name| Path::new("/run/netns").join(name));
    let processes = entries("/proc").map(|name| Path::new("/proc").join(name).join("ns/net"));
    names
        .chain(processes)
        .filter_map(|path| File::open(path).ok())
        .find(|file| file.metadata().is_ok_and(|there| there.ino() == inode))
}

fn entries(folder: &str) -> impl Iterator<Item = OsString> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.file_name())
}
