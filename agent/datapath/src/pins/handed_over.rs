//! Tables on their way from one object of ours to another: pinned for a moment, in a folder of their own.

use std::{fs, io, path::PathBuf};

use tracing::warn;

use crate::pins::directory::remove_folder;

/// The folder. What is pinned there is gone when this is.
#[derive(Debug)]
pub(crate) struct HandedOver(PathBuf);

impl HandedOver {
    /// Makes the folder, empty, whatever an agent that was killed has left there.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(crate) fn at(path: PathBuf) -> io::Result<Self> {
        remove_folder(&path).map_err(io::Error::other)?;
        fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// Returns the path for something of this name.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for HandedOver {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.0) {
            warn!(%error, path = %self.0.display(), "tables stay pinned twice until the next start");
        }
    }
}
