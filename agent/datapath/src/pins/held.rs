//! Objects that are held beside their pins, so that a pin that is gone can be made again.

use std::{
    ffi::OsString,
    fs, io,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

use tracing::debug;

use crate::{
    pins::{directory::remove, error::PinError},
    sys::kernel_object,
};

/// An object of the kernel and the path of its pin. It outlives the agent: dropping this leaves the pin.
#[derive(Debug)]
pub(crate) struct Held {
    object: OwnedFd,
    path: PathBuf,
}

/// The outcome of a comparison of pins with what is held.
#[derive(Debug, Default)]
pub(crate) struct Repair {
    /// Paths at which something was pinned again.
    pub(crate) again: Vec<PathBuf>,
    /// The first failure to pin something.
    pub(crate) error: Option<PinError>,
}

/// Results of the comparisons of the pins with what is held.
#[derive(Debug, Default)]
pub(crate) struct PinState {
    /// True if something had to be pinned again since the agent's start.
    pub(crate) was_restored: bool,
    /// Why something is not pinned, if it is not.
    pub(crate) problem: Option<String>,
}

impl Held {
    /// Holds an object that is pinned at `path`.
    pub(crate) fn new(object: impl Into<OwnedFd>, path: &Path) -> Self {
        Self {
            object: object.into(),
            path: path.to_owned(),
        }
    }

    /// Holds the object that is pinned at `path`.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub(crate) fn open(path: &Path) -> Result<Self, PinError> {
        let object = kernel_object::open(path).map_err(PinError::io("opening the pin", path))?;
        Ok(Self::new(object, path))
    }

    /// Holds the same object, whose pin has another name now.
    pub(super) fn at(self, path: &Path) -> Self {
        Self::new(self.object, path)
    }

    /// Returns the path of the pin.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Pins it again if it is not pinned any more.
    pub(crate) fn keep(&self, repair: &mut Repair) {
        repair.object(&self.path, self.object.as_fd());
    }

    /// Detaches a link, and removes its pin. A pin that another mount hides keeps nothing attached.
    ///
    /// # Errors
    ///
    /// If the pin cannot be removed.
    pub(crate) fn detach(self) -> Result<(), PinError> {
        if let Err(error) = kernel_object::detach(self.object.as_fd()) {
            debug!(%error, path = %self.path.display(), "a link ends with its last pin");
        }
        remove(&self.path)
    }
}

impl Repair {
    /// Pins an object at `path`, unless it is the one that is pinned there.
    pub(crate) fn object(&mut self, path: &Path, object: BorrowedFd<'_>) {
        self.note(path, keep(path, object));
    }

    /// Notes whether something had to be pinned again at `path`.
    pub(crate) fn note(&mut self, path: &Path, kept: Result<bool, PinError>) {
        match kept {
            Ok(true) => self.again.push(path.to_owned()),
            Ok(false) => {}
            Err(error) => {
                self.error.get_or_insert(error);
            }
        }
    }
}

/// Pins an object at `path`, in place of another one if there is one. Returns whether it was not pinned there.
fn keep(path: &Path, object: BorrowedFd<'_>) -> Result<bool, PinError> {
    let held = kernel_object::identity(object);
    let held = held.map_err(PinError::io("looking at the object of", path))?;
    let there = kernel_object::open(path);
    let there = there.and_then(|there| kernel_object::identity(there.as_fd()));
    if there.is_ok_and(|there| there == held) {
        return Ok(false);
    }
    put(path, |new| kernel_object::pin(object, new))?;
    Ok(true)
}

/// Has `make` make a pin, and gives it the name `path`, in place of another one if there is one.
///
/// # Errors
///
/// If the file system refuses.
pub(crate) fn put(path: &Path, make: impl FnOnce(&Path) -> io::Result<()>) -> Result<(), PinError> {
    let new = draft(path);
    remove(&new)?;
    make(&new).map_err(PinError::io("pinning", &new))?;
    take_name(&new, path)
}

/// Gives the pin `new` the name `path`, in place of another one if there is one.
///
/// # Errors
///
/// If the file system refuses.
pub(super) fn take_name(new: &Path, path: &Path) -> Result<(), PinError> {
    fs::rename(new, path).map_err(PinError::io("replacing", path))
}

/// Returns the path at which something is pinned that is to take this one.
pub(super) fn draft(path: &Path) -> PathBuf {
    // A bpffs takes no names with dots.
    let mut new = OsString::from(path);
    new.push("-new");
    new.into()
}
