//! Pin directories that remove themselves.

use std::{
    fs,
    path::{Path, PathBuf},
    sync::{
        Once,
        atomic::{AtomicU32, Ordering},
    },
};

use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

use crate::{
    leftovers::{name, owner, reap},
    process::run,
};

/// Mount point of bpf file systems.
const BPFFS: &str = "/sys/fs/bpf";

/// A name for an agent's pin directory; what an agent makes there is removed when this is dropped.
///
/// It is called `shunt-test-<pid>-<number>`, so that what a killed process left differs from
/// what is in use.
#[derive(Debug)]
pub struct PinDir {
    path: PathBuf,
    /// True if the bpf file system is to go, too.
    unmount: bool,
}

impl PinDir {
    /// A directory that does not exist yet.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static REAPED: Once = Once::new();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        REAPED.call_once(|| reap(BPFFS, owner, |path| drop(fs::remove_dir_all(path))));
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self {
            path: Path::new(BPFFS).join(name(number)),
            unmount: false,
        }
    }

    /// Unmounts the bpf file system at the end, if there is none now and no other process uses it then.
    /// For a process of which there is only one at a time.
    #[must_use]
    pub fn with_mount(mut self) -> Self {
        let mounted = statfs(BPFFS).is_ok_and(|there| there.filesystem_type() == BPF_FS_MAGIC);
        self.unmount = !mounted;
        self
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for PinDir {
    fn drop(&mut self) {
        let Self { path, unmount } = self;
        if path.exists()
            && let Err(error) = fs::remove_dir_all(&path)
        {
            eprintln!("left behind: {}: {error}", path.display());
        }
        if *unmount
            && !is_used()
            && let Err(error) = run("umount", &[BPFFS])
        {
            eprintln!("left behind: {error:#}");
        }
    }
}

/// Returns whether anything is pinned. The kernel's own files (`kernel/bpf/preload`) have a dot in their
/// names, which no other can have.
fn is_used() -> bool {
    let mut entries = fs::read_dir(BPFFS).into_iter().flatten().flatten();
    entries.any(|entry| !entry.file_name().to_string_lossy().contains('.'))
}
