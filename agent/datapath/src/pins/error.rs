//! Why a pin directory cannot be used.

use std::{
    io,
    path::{Path, PathBuf},
};

use shunt_files::{Holder, LockError};
use thiserror::Error;

/// A pin directory cannot be used.
#[derive(Debug, Error)]
pub enum PinError {
    /// A file operation failed.
    #[error("{what} {} failed: {source}{}", path.display(), advice(source))]
    Io {
        /// Attempt that failed.
        what: &'static str,
        /// Path of its file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory is on another file system.
    #[error("{} is not on a bpf file system, where alone tables and programs can be pinned; \
             the usual one is at /sys/fs/bpf", .0.display())]
    NotBpffs(PathBuf),
    /// Its file system is the agent's alone.
    #[error("the bpf file system at {} is in a mount namespace of the agent's own: what is pinned there would \
             be gone with the agent. Mount one before, where the first process has it as well (`mount -t bpf \
             bpf /sys/fs/bpf` on the host; in a container, the host's /sys/fs/bpf), or pin nothing \
             (--no-pin)", .0.display())]
    Vanishing(PathBuf),
    /// Another agent, or a cleanup, uses it.
    #[error("{} is in use by {holder}: a pin directory is for one agent", path.display())]
    InUse {
        /// The directory.
        path: PathBuf,
        /// The process that has it.
        holder: Holder,
    },
    /// Another process mounts a bpf file system, and does not come to an end.
    #[error("cannot mount a bpf file system at {}: {source}", path.display())]
    Lock {
        /// Mount point.
        path: PathBuf,
        /// Reason of the failure.
        source: LockError,
    },
    /// The pinned tables are of another version of Shunt.
    #[error("the tables pinned at {} {difference}, so this version would misread them: \
             `shunt cleanup --pin-dir {}` removes them, and with them the translation of every \
             open connection", path.display(), path.display())]
    Incompatible {
        /// The directory.
        path: PathBuf,
        /// Version or value that was found, and that of this version.
        difference: String,
    },
    /// The kernel refused something about a pinned object.
    #[error("{what} {} failed: {source}", path.display())]
    Object {
        /// Attempt that failed.
        what: &'static str,
        /// Path of its pin.
        path: PathBuf,
        /// The kernel's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// Returns what to do about an error besides.
fn advice(error: &io::Error) -> &'static str {
    if error.kind() == io::ErrorKind::PermissionDenied {
        ". Who is root all the same is denied it by a profile of AppArmor or SELinux: the manifests of deploy/ name \
         none for the agent's container"
    } else {
        ""
    }
}

impl PinError {
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(crate) fn object<E: std::error::Error + Send + Sync + 'static>(
        what: &'static str,
        path: &Path,
    ) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Object {
            what,
            path,
            source: Box::new(source),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_that_denies_is_named() {
        for (kind, is_named) in [
            (io::ErrorKind::PermissionDenied, true),
            (io::ErrorKind::NotFound, false),
        ] {
            let error = PinError::io("making", Path::new("/sys/fs/bpf/shunt"))(kind.into());
            assert_eq!(error.to_string().contains("AppArmor"), is_named, "{error}");
        }
    }
}
