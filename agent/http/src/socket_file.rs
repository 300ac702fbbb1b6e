//! The socket file: one agent's, and gone with it.

use std::{
    fs, io,
    os::{
        fd::{AsRawFd as _, OwnedFd},
        unix::{
            fs::{FileTypeExt as _, MetadataExt as _},
            net::UnixListener,
        },
    },
    path::{Path, PathBuf},
    time::SystemTime,
};

use nix::{
    errno::Errno,
    sys::{
        socket::{
            AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, connect, listen, socket,
        },
        stat::{Mode, fchmod},
    },
};
use shunt_files::{LockError, LockFile, PATIENCE, PAUSE, make_folder};
use thiserror::Error;
use tokio::time::{Instant, sleep};
use tracing::info;

/// Only the agent's own user may connect.
const MODE: Mode = Mode::S_IRUSR.union(Mode::S_IWUSR);

/// A socket cannot be had.
#[derive(Debug, Error)]
pub enum SocketError {
    /// Another process answers there.
    #[error("another agent listens at {}: a socket is for one agent", .0.display())]
    InUse(PathBuf),
    /// Something else is there.
    #[error("{} exists and is no socket", .0.display())]
    NotASocket(PathBuf),
    /// The lock of those that look at the socket's file and replace it.
    #[error("cannot listen at {}: {source}{}", path.display(), waited(source))]
    Lock {
        /// The socket.
        path: PathBuf,
        /// Why not.
        source: LockError,
    },
    /// A system call failed.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// Action that was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
}

/// Returns how long the agent has waited for a lock that another process has.
fn waited(error: &LockError) -> String {
    match error {
        LockError::Held { .. } => format!(", {} s and longer", PATIENCE.as_secs()),
        _ => String::new(),
    }
}

impl SocketError {
    fn io<E: Into<io::Error>>(what: &'static str, path: &Path) -> impl FnOnce(E) -> Self {
        let path = path.to_owned();
        move |source| Self::Io {
            what,
            path,
            source: source.into(),
        }
    }
}

/// A Unix socket that listens, of mode 0600. Dropping it removes the file.
#[derive(Debug)]
pub struct SocketFile {
    path: PathBuf,
    /// The file that is ours: someone may have put another in its place.
    file: FileIdentity,
    listener: Option<UnixListener>,
}

/// Properties that distinguish a file from one that came later, which may have got its inode.
#[derive(Debug, PartialEq, Eq)]
struct FileIdentity {
    inode: u64,
    /// Time of its creation, where the file system keeps it.
    created: Option<SystemTime>,
}

impl FileIdentity {
    fn of(path: &Path) -> io::Result<Self> {
        let there = fs::symlink_metadata(path)?;
        Ok(Self {
            inode: there.ino(),
            created: there.created().ok(),
        })
    }
}

impl SocketFile {
    /// Listens at `path`; makes its directory, of mode 0700, if there is none. The file of an agent that was
    /// killed is replaced.
    ///
    /// One agent at a time looks and replaces, with the lock `path.lock`. To wait for it does not block.
    ///
    /// # Errors
    ///
    /// If another agent listens there, another process holds the lock for longer than [`PATIENCE`], or the file
    /// cannot be made.
    pub async fn listen(path: &Path) -> Result<Self, SocketError> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        let dir = parent.unwrap_or(Path::new("."));
        make_folder(dir).map_err(SocketError::io("making the directory", dir))?;
        let _lock = lock(path).await?;
        remove_dead(path)?;
        let failed = || SocketError::io::<Errno>("listening at", path);
        let listener = new_socket().map_err(failed())?;
        // Linux makes the file with the mode that the socket has (unix_bind in net/unix/af_unix.c),
        // so there is no instant with another one.
        fchmod(&listener, MODE).map_err(failed())?;
        let address = UnixAddr::new(path).map_err(failed())?;
        bind(listener.as_raw_fd(), &address).map_err(failed())?;
        listen(&listener, Backlog::MAXCONN).map_err(failed())?;
        let file = FileIdentity::of(path).map_err(SocketError::io("looking at", path))?;
        Ok(Self {
            path: path.to_owned(),
            file,
            listener: Some(listener.into()),
        })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether the file was removed, so that no client can connect any more.
    pub fn is_removed(&self) -> bool {
        fs::symlink_metadata(&self.path).is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// The listener, which does not block.
    ///
    /// # Errors
    ///
    /// If it was taken before.
    pub fn take_listener(&mut self) -> io::Result<UnixListener> {
        self.listener
            .take()
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let ours = FileIdentity::of(&self.path).is_ok_and(|there| there == self.file);
        if ours && let Err(error) = fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the socket's file stays");
        }
    }
}

/// Takes the lock of this socket.
async fn lock(path: &Path) -> Result<LockFile, SocketError> {
    let file = LockFile::beside(path);
    let deadline = Instant::now() + PATIENCE;
    let mut is_known = false;
    loop {
        match LockFile::try_take(&file) {
            Ok(lock) => return Ok(lock),
            Err(error @ LockError::Held { .. }) if Instant::now() < deadline => {
                if !is_known {
                    info!("waiting up to {} s: {error}", PATIENCE.as_secs());
                    is_known = true;
                }
                sleep(PAUSE).await;
            }
            Err(source) => {
                let path = path.to_owned();
                return Err(SocketError::Lock { path, source });
            }
        }
    }
}

/// Removes the file of a socket without a listener.
fn remove_dead(path: &Path) -> Result<(), SocketError> {
    let there = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        there => there.map_err(SocketError::io("looking at", path))?,
    };
    if !there.file_type().is_socket() {
        return Err(SocketError::NotASocket(path.to_owned()));
    }
    let failed = || SocketError::io::<Errno>("connecting to", path);
    let address = UnixAddr::new(path).map_err(failed())?;
    let client = new_socket().map_err(failed())?;
    match connect(client.as_raw_fd(), &address) {
        // A full backlog: the socket does not block, which would wait for the other agent.
        Ok(()) | Err(Errno::EAGAIN) => Err(SocketError::InUse(path.to_owned())),
        Err(Errno::ECONNREFUSED) => {
            fs::remove_file(path).map_err(SocketError::io("removing", path))
        }
        Err(error) => Err(failed()(error)),
    }
}

fn new_socket() -> nix::Result<OwnedFd> {
    socket(
        AddressFamily::Unix,
        SockType::Stream,
        SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK,
        None,
    )
}

#[cfg(test)]
mod tests {
    use std::{env, fs::File, os::unix::fs::PermissionsExt as _, process};

    use nix::fcntl::{Flock, FlockArg};

    use super::*;

    /// A path in a directory that does not exist yet, and goes with this.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            Self(env::temp_dir().join(format!("shunt-socket-{}-{name}", process::id())))
        }

        fn path(&self) -> PathBuf {
            self.0.join("run/shunt.sock")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[tokio::test]
    async fn the_file_is_for_its_owner_and_goes_with_the_socket() {
        let folder = Folder::new("mode");
        let socket = SocketFile::listen(&folder.path()).await.unwrap();
        let mode = fs::metadata(folder.path()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        drop(socket);
        assert!(!folder.path().exists());
    }

    #[tokio::test]
    async fn a_live_socket_is_refused_and_a_dead_one_replaced() {
        let folder = Folder::new("dead");
        let mut socket = SocketFile::listen(&folder.path()).await.unwrap();
        let refused = SocketFile::listen(&folder.path())
            .await
            .unwrap_err()
            .to_string();
        let path = folder.path();
        let expected = format!(
            "another agent listens at {}: a socket is for one agent",
            path.display()
        );
        assert_eq!(refused, expected);
        // As the kernel closes it when an agent is killed.
        drop(socket.take_listener().unwrap());
        let replaced = SocketFile::listen(&path).await.unwrap();
        drop(socket);
        assert!(path.exists(), "what is no longer ours stays");
        drop(replaced);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_lock_on_the_directory_is_no_hindrance() {
        let folder = Folder::new("directory");
        let path = folder.path();
        let dir = path.parent().unwrap();
        make_folder(dir).unwrap();
        assert_eq!(
            fs::metadata(dir).unwrap().permissions().mode() & 0o7777,
            0o700
        );
        // As any local user can who may open the directory, and an agent before does for an instant.
        let open = File::open(dir).unwrap();
        let _held = Flock::lock(open, FlockArg::LockExclusive).unwrap();
        SocketFile::listen(&path).await.unwrap();
    }

    #[tokio::test]
    async fn a_live_socket_with_a_full_backlog_is_in_use() {
        let folder = Folder::new("full");
        let path = folder.path();
        make_folder(path.parent().unwrap()).unwrap();
        let address = UnixAddr::new(&path).unwrap();
        let server = new_socket().unwrap();
        bind(server.as_raw_fd(), &address).unwrap();
        listen(&server, Backlog::new(0).unwrap()).unwrap();
        let clients: Vec<OwnedFd> = (0..3).map(|_| new_socket().unwrap()).collect();
        let results = clients
            .iter()
            .map(|client| connect(client.as_raw_fd(), &address));
        assert!(results.collect::<Vec<_>>().contains(&Err(Errno::EAGAIN)));
        let error = SocketFile::listen(&path).await.unwrap_err();
        assert!(matches!(error, SocketError::InUse(_)), "{error}");
    }

    #[tokio::test]
    async fn what_is_no_socket_is_left_alone() {
        let folder = Folder::new("file");
        fs::create_dir_all(folder.path().parent().unwrap()).unwrap();
        fs::write(folder.path(), "precious").unwrap();
        let refused = SocketFile::listen(&folder.path()).await.unwrap_err();
        assert!(matches!(refused, SocketError::NotASocket(_)), "{refused}");
        assert_eq!(fs::read_to_string(folder.path()).unwrap(), "precious");
    }
}
