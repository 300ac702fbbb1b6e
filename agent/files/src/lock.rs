//! A lock file.

use std::{
    fs::{File, OpenOptions, Permissions},
    io,
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    thread::sleep,
    time::{Duration, Instant},
};

use nix::{
    errno::Errno,
    fcntl::{Flock, FlockArg, OFlag},
    unistd::geteuid,
};
use thiserror::Error;

use crate::{folder::with_ending, holder::Holder};

/// The longest wait for a lock that is held for an instant.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The pause between two tries.
pub const PAUSE: Duration = Duration::from_millis(20);

/// A lock cannot be had.
#[derive(Debug, Error)]
pub enum LockError {
    /// Another process has it.
    #[error("{} is locked by {holder}", path.display())]
    Held {
        /// The lock file.
        path: PathBuf,
        /// The process.
        holder: Holder,
    },
    /// Another user has made the file, and may lock it at any time.
    #[error("{} belongs to user {owner}, and not to the agent's: remove it", path.display())]
    Foreign {
        /// The lock file.
        path: PathBuf,
        /// The user's id.
        owner: u32,
    },
    /// Something else has the name.
    #[error("{} is not a regular file: remove it", .0.display())]
    NotAFile(PathBuf),
    /// A system call failed.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// The operation that failed.
        what: &'static str,
        /// The lock file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// A lock that ends with this, or with the process.
///
/// It is an flock(2) on a file of its own, which stays. An flock needs no right to write: every process that can open
/// the file can hold the lock. So the file has mode 0600.
#[derive(Debug)]
pub struct LockFile(#[expect(dead_code, reason = "held, not used")] Flock<File>);

impl LockFile {
    /// Returns the path of the lock file that belongs to `file`: `file.lock`.
    pub fn beside(file: &Path) -> PathBuf {
        with_ending(file, "lock")
    }

    /// Takes the lock; makes the file if there is none.
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] at once if another process has it.
    pub fn try_take(path: &Path) -> Result<Self, LockError> {
        let file = open(path)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) if is_at(&lock, path) => Ok(Self(lock)),
            // Another file has taken its place meanwhile, and with it the lock.
            Ok(lock) => Err(LockError::Held {
                path: path.to_owned(),
                holder: Holder::of(&lock),
            }),
            Err((file, Errno::EWOULDBLOCK)) => Err(LockError::Held {
                path: path.to_owned(),
                holder: Holder::of(&file),
            }),
            Err((_, error)) => Err(io_error("lock", path)(error.into())),
        }
    }

    /// Takes the lock, and waits for it no longer than [`PATIENCE`].
    ///
    /// # Errors
    ///
    /// [`LockError::Held`] if another process still has it then.
    pub fn take(path: &Path) -> Result<Self, LockError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match Self::try_take(path) {
                Err(LockError::Held { .. }) if Instant::now() < deadline => sleep(PAUSE),
                tried => return tried,
            }
        }
    }
}

/// Opens the file without waiting for anything: a FIFO of this name would block.
fn open(path: &Path) -> Result<File, LockError> {
    let flags = OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK;
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .custom_flags(flags.bits())
        .open(path)
        .map_err(io_error("open", path))?;
    let there = file.metadata().map_err(io_error("look at", path))?;
    if !there.is_file() {
        return Err(LockError::NotAFile(path.to_owned()));
    }
    let (owner, ours) = (there.uid(), geteuid().as_raw());
    if owner != ours && owner != 0 {
        return Err(LockError::Foreign {
            path: path.to_owned(),
            owner,
        });
    }
    if owner == ours && there.mode() & 0o077 != 0 {
        let mode = Permissions::from_mode(0o600);
        file.set_permissions(mode)
            .map_err(io_error("change the mode of", path))?;
    }
    Ok(file)
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(ours), Ok(there)) = (file.metadata(), path.symlink_metadata()) else {
        return false;
    };
    (ours.dev(), ours.ino()) == (there.dev(), there.ino())
}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> LockError {
    let path = path.to_owned();
    move |source| LockError::Io { what, path, source }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink, process};

    use nix::{sys::stat::Mode, unistd::mkfifo};

    use super::*;

    #[test]
    fn a_lock_is_for_one_and_its_error_names_the_holder() {
        let folder = tempfile::tempdir().unwrap();
        let path = LockFile::beside(&folder.path().join("shunt.sock"));
        assert!(path.ends_with("shunt.sock.lock"));
        let lock = LockFile::try_take(&path).unwrap();
        let mode = fs::metadata(&path).unwrap().mode();
        assert_eq!(mode & 0o7777, 0o600, "no other user may open it");
        let LockError::Held { path: _, holder } = LockFile::try_take(&path).unwrap_err() else {
            panic!("the lock is held");
        };
        assert_eq!(holder.pid, Some(process::id()));
        drop(lock);
        LockFile::take(&path).unwrap();
    }

    #[test]
    fn a_lock_on_the_directory_is_no_hindrance() {
        let folder = tempfile::tempdir().unwrap();
        let open = File::open(folder.path()).unwrap();
        let _held = Flock::lock(open, FlockArg::LockExclusive).unwrap();
        LockFile::try_take(&folder.path().join("lock")).unwrap();
    }

    #[test]
    fn a_file_that_was_open_to_others_is_closed_to_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        let _lock = LockFile::try_take(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o600);
    }

    #[test]
    fn other_kinds_of_files_are_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("precious");
        let link = folder.path().join("link");
        symlink(&target, &link).unwrap();
        let error = LockFile::try_take(&link).unwrap_err();
        assert!(matches!(error, LockError::Io { .. }), "{error}");
        assert!(!target.exists(), "no link is followed");

        let fifo = folder.path().join("fifo");
        mkfifo(&fifo, Mode::S_IRWXU).unwrap();
        let error = LockFile::try_take(&fifo).unwrap_err();
        assert!(matches!(error, LockError::NotAFile(_)), "{error}");
    }
}
