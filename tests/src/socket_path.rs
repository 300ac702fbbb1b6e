//! Places for an agent's socket.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process,
    sync::atomic::{AtomicU32, Ordering},
};

/// A name for a socket, in a directory that does not exist yet and is removed when this is dropped.
#[derive(Debug)]
pub struct SocketPath {
    dir: PathBuf,
    path: PathBuf,
}

impl SocketPath {
    /// A new name.
    #[expect(clippy::new_without_default, reason = "each is another one")]
    pub fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let dir = env::temp_dir().join(format!("shunt-test-{}-{number}", process::id()));
        Self {
            path: dir.join("shunt.sock"),
            dir,
        }
    }

    /// The socket's name.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for SocketPath {
    fn drop(&mut self) {
        if self.dir.exists()
            && let Err(error) = fs::remove_dir_all(&self.dir)
        {
            eprintln!("left behind: {}: {error}", self.dir.display());
        }
    }
}
