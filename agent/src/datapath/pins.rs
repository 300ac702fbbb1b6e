//! What outlives the agent: tables, programs and links, pinned below one directory of a bpffs.
//!
//! ```text
//! maps/NAME                      a table of the object, or LAYOUT
//! programs/tc_ingress            a program that links run
//! links/NETNS-INDEX-ingress      on the interface of this index in the namespace of this inode;
//!                                before Linux 6.6 a symbolic link, the note of a filter
//! ```

mod bpffs;
mod cleanup;
mod layout;
mod lock;
mod namespace;

use std::{
    ffi::OsStr,
    fs, io,
    path::{Path, PathBuf},
};

use aya::programs::{
    SchedClassifier,
    links::{FdLink, PinnedLink},
    tc::SchedClassifierLink,
};
use nix::errno::Errno;
use thiserror::Error;

pub use self::cleanup::{Removed, cleanup};
use self::lock::Lock;
pub(super) use self::{cleanup::release, layout::Layout};
use super::hook::Hook;

const MAPS: &str = "maps";
const PROGRAMS: &str = "programs";
const LINKS: &str = "links";

/// A pin directory cannot be used.
#[derive(Debug, Error)]
pub enum PinError {
    /// A file operation failed.
    #[error("{what} {} failed: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With which file.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// The directory is on another file system.
    #[error("{} is not on a bpf file system, where alone tables and programs can be pinned; \
             the usual one is at /sys/fs/bpf", .0.display())]
    NotBpffs(PathBuf),
    /// Another agent, or a cleanup, uses it.
    #[error("{} is in use by {}: a pin directory is for one agent", path.display(),
            pid.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    InUse {
        /// The directory.
        path: PathBuf,
        /// Who has it, if that can be told.
        pid: Option<u32>,
    },
    /// The pinned tables are of another version of Shunt.
    #[error("the tables pinned at {} {difference}, so this version would misread them: \
             `shunt cleanup --pin-dir {}` removes them, and with them the translation of every \
             open connection", path.display(), path.display())]
    Incompatible {
        /// The directory.
        path: PathBuf,
        /// What was found, and what this version has.
        difference: String,
    },
    /// The kernel refused something about a pinned object.
    #[error("{what} {} failed: {source}", path.display())]
    Object {
        /// What was tried.
        what: &'static str,
        /// With which pin.
        path: PathBuf,
        /// The kernel's reason.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl PinError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }

    pub(super) fn object<E: std::error::Error + Send + Sync + 'static>(
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

/// A pin directory that is ours until this is dropped.
#[derive(Debug)]
pub struct Pins {
    dir: PathBuf,
    /// The inode of our network namespace: an interface's index means nothing in another one.
    namespace: u64,
    _lock: Lock,
}

/// A pinned link.
#[derive(Debug)]
pub struct LinkPin {
    /// Where it is pinned.
    pub path: PathBuf,
    /// The interface's index and the hook; `None` if it is not one of our network namespace.
    pub place: Option<(u32, Hook)>,
}

impl Pins {
    /// Makes the directory, if need be with a bpffs for it, and takes it.
    ///
    /// # Errors
    ///
    /// If it cannot be made or somebody else has it.
    pub fn open(dir: &Path) -> Result<Self, PinError> {
        bpffs::ensure(dir)?;
        let lock = Lock::take(dir)?;
        for folder in [MAPS, PROGRAMS, LINKS] {
            let folder = dir.join(folder);
            fs::create_dir_all(&folder).map_err(PinError::io("making the directory", &folder))?;
        }
        let ours = Path::new(namespace::OURS);
        let namespace = nix::sys::stat::stat(ours)
            .map_err(io::Error::from)
            .map_err(PinError::io("looking at", ours))?
            .st_ino;
        Ok(Self {
            dir: dir.to_owned(),
            namespace,
            _lock: lock,
        })
    }

    /// Where the table of this name is pinned, or is to be.
    pub fn map(&self, name: &str) -> PathBuf {
        self.dir.join(MAPS).join(name)
    }

    /// Where the link of a hook of the interface with this index is to be pinned.
    pub fn link(&self, index: u32, hook: Hook) -> PathBuf {
        let name = format!("{}-{index}-{}", self.namespace, hook.name());
        self.dir.join(LINKS).join(name)
    }

    /// The links that are pinned.
    pub fn links(&self) -> Result<Vec<LinkPin>, PinError> {
        let paths = list(&self.dir.join(LINKS))?.into_iter();
        Ok(paths
            .map(|path| {
                let place = place(&path).filter(|place| place.0 == self.namespace);
                LinkPin {
                    place: place.map(|(_, index, hook)| (index, hook)),
                    path,
                }
            })
            .collect())
    }

    /// Pins a program in place of the one that has the name, if any.
    pub fn pin_program(&self, name: &str, program: &mut SchedClassifier) -> Result<(), PinError> {
        let path = self.dir.join(PROGRAMS).join(name);
        // A bpffs takes no names with dots.
        let new = self.dir.join(PROGRAMS).join(format!("{name}-new"));
        remove(&new)?;
        program
            .pin(&new)
            .map_err(PinError::object("pinning the program", &new))?;
        fs::rename(&new, &path).map_err(PinError::io("replacing the program", &path))
    }
}

/// What the name of a link says: the inode of a network namespace, the index of an interface in
/// it, and the hook.
fn place(path: &Path) -> Option<(u64, u32, Hook)> {
    let name = path.file_name().and_then(OsStr::to_str)?;
    let mut parts = name.splitn(3, '-');
    let namespace = parts.next()?.parse().ok()?;
    let index = parts.next()?.parse().ok()?;
    Some((namespace, index, Hook::named(parts.next()?)?))
}

/// The link that is pinned at `path`.
pub(super) fn open_link(path: &Path) -> Result<SchedClassifierLink, PinError> {
    let link = PinnedLink::from_pin(path).map_err(PinError::object("opening the link", path))?;
    FdLink::from(link)
        .try_into()
        .map_err(PinError::object("opening the link", path))
}

/// Pins a link at `path`, where nothing of ours is.
pub(super) fn pin_link(
    link: SchedClassifierLink,
    path: &Path,
) -> Result<SchedClassifierLink, PinError> {
    let link = FdLink::try_from(link).map_err(PinError::object("pinning the link", path))?;
    remove(path)?;
    let link = link
        .pin(path)
        .map_err(PinError::object("pinning the link", path))?;
    FdLink::from(link)
        .try_into()
        .map_err(PinError::object("pinning the link", path))
}

/// Removes a pin; one that is not there is no error.
pub(super) fn remove(path: &Path) -> Result<(), PinError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result.map_err(PinError::io("removing", path)),
    }
}

/// The entries of a directory, sorted; none if there is no directory.
fn list(folder: &Path) -> Result<Vec<PathBuf>, PinError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(PinError::io("listing", folder))?,
    };
    let mut paths = entries
        .map(|entry| Ok(entry?.path()))
        .collect::<io::Result<Vec<_>>>()
        .map_err(PinError::io("listing", folder))?;
    paths.sort();
    Ok(paths)
}

/// Whether a system call failed because the link's interface is gone (`tcx_link_update` in
/// `kernel/bpf/tcx.c`).
pub(super) fn is_dead(error: &aya::programs::ProgramError) -> bool {
    match error {
        aya::programs::ProgramError::SyscallError(error) => {
            error.io_error.raw_os_error() == Some(Errno::ENOLINK as i32)
        }
        _ => false,
    }
}
