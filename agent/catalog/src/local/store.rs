//! The file in which registrations outlive the agent.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
    sync::{Mutex, PoisonError},
};

use serde::{Deserialize, Serialize};
use shunt_files::{Holder, LockError, LockFile, ReplaceError, make_folder, replace};
use thiserror::Error;

use crate::local::state::{
    check::Check, definitions::Definitions, service::Registered, status::Status,
};

/// The form of the file.
const VERSION: u32 = 1;

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    services: Vec<Registered>,
    checks: Vec<Check>,
    /// Status of the checks that were reported on or run.
    statuses: BTreeMap<String, Status>,
}

/// The form of a file, of whatever version.
#[derive(Debug, Deserialize)]
struct Form {
    version: u32,
}

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum StoreError {
    /// It cannot be read, or its folder made.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// The action that was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] ReplaceError),
    /// Another agent has it.
    #[error("{} is another agent's, of {holder}: a file is for one agent", path.display())]
    InUse {
        /// Path of the file.
        path: PathBuf,
        /// The process of the other agent.
        holder: Holder,
    },
    /// Its lock cannot be had.
    #[error(transparent)]
    Lock(LockError),
    /// Its content makes no sense.
    #[error(
        "{} is damaged: {source}; nothing was changed: put a good copy there, or move it away to begin \
         without registrations", path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// The error, with its place.
        source: serde_json::Error,
    },
    /// A later agent has written it.
    #[error(
        "{} has version {version}, and this agent reads {VERSION}: nothing was changed; use the agent \
         that wrote it, or move the file away to begin without registrations", path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Its version.
        version: u32,
    },
}

impl StoreError {
    fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| Self::Io { what, path, source }
    }
}

/// Registrations at the end of the agent.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// The registrations.
    pub(crate) known: Definitions,
    /// Status of the checks.
    pub(crate) statuses: BTreeMap<String, Status>,
}

/// The file, which is this agent's as long as this is there.
#[derive(Debug)]
pub(crate) struct Store {
    path: PathBuf,
    /// One write at a time.
    writing: Mutex<()>,
    _lock: LockFile,
}

impl Store {
    /// Opens the file and reads it; makes its folder if there is none. Without a file nothing is
    /// registered.
    ///
    /// # Errors
    ///
    /// It cannot be read, or another agent has it. It is as it was.
    pub(crate) fn open(path: &Path) -> Result<(Self, Stored), StoreError> {
        let (store, kept) = Self::take(path)?;
        let stored = match kept {
            Some(text) => read(&text, path)?,
            None => Stored::default(),
        };
        Ok((store, stored))
    }

    /// Has a file for this agent alone; makes its folder if there is none. Gives what is in it, if it is
    /// there.
    ///
    /// # Errors
    ///
    /// It cannot be read, or another agent has it. It is as it was.
    pub(crate) fn take(path: &Path) -> Result<(Self, Option<Vec<u8>>), StoreError> {
        let parent = path.parent().filter(|parent| *parent != Path::new(""));
        if let Some(folder) = parent {
            make_folder(folder).map_err(StoreError::io("cannot make the folder", folder))?;
        }
        let lock = LockFile::try_take(&LockFile::beside(path)).map_err(|error| match error {
            LockError::Held { path: _, holder } => StoreError::InUse {
                path: path.to_owned(),
                holder,
            },
            error => StoreError::Lock(error),
        })?;
        let kept = match fs::read(path) {
            Ok(text) => Some(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(StoreError::io("cannot read", path)(error)),
        };
        let store = Self {
            path: path.to_owned(),
            writing: Mutex::default(),
            _lock: lock,
        };
        Ok((store, kept))
    }

    /// Writes it. Whatever happens meanwhile, the file has the old content or the new one; when this
    /// returns, it has the new one, also after the power was cut.
    ///
    /// # Errors
    ///
    /// It cannot be written. It has the old content.
    pub(crate) fn write(&self, content: &[u8]) -> Result<(), StoreError> {
        let Self {
            path,
            writing,
            _lock: _,
        } = self;
        let _writing = writing.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(replace(path, content)?)
    }
}

/// Returns the content of the file.
///
/// # Errors
///
/// It cannot be written down.
pub(crate) fn content(
    known: &Definitions,
    statuses: BTreeMap<String, Status>,
) -> Result<Vec<u8>, serde_json::Error> {
    let services = known.services().map(|service| (**service).clone());
    let checks = known.checks().map(|check| (**check).clone());
    serde_json::to_vec(&Content {
        version: VERSION,
        services: services.collect(),
        checks: checks.collect(),
        statuses,
    })
}

fn read(text: &[u8], path: &Path) -> Result<Stored, StoreError> {
    let damaged = |source| StoreError::Damaged {
        path: path.to_owned(),
        source,
    };
    let Form { version } = serde_json::from_slice(text).map_err(damaged)?;
    if version != VERSION {
        let path = path.to_owned();
        return Err(StoreError::Newer { path, version });
    }
    let Content {
        version: _,
        services,
        checks,
        statuses,
    } = serde_json::from_slice(text).map_err(damaged)?;
    Ok(Stored {
        known: Definitions::restored(services, checks),
        statuses,
    })
}
