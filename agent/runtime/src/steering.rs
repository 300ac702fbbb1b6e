//! An operator's changes on this node: kept in a file, so that they outlive the agent.

use std::{
    fs, io,
    net::IpAddr,
    num::NonZeroU16,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use shunt_files::{Holder, LockError, LockFile, ReplaceError, make_folder, replace};
use shunt_model::{Override, Overrides, ServiceId};
use thiserror::Error;
use tracing::info;

/// The form of the file.
const VERSION: u32 = 1;

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum SteeringError {
    /// It cannot be read, or its folder made.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// Action that was tried.
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
    #[error("the overrides in {} are another agent's, of {holder}: a file is for one agent", path.display())]
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
        "{} is damaged: {reason}; move it away to begin without overrides", path.display()
    )]
    Damaged {
        /// Path of the file.
        path: PathBuf,
        /// Place of the error, or its cause.
        reason: String,
    },
}

/// A change, and when it ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Steered {
    pub(super) change: Override,
    pub(super) until: Option<SystemTime>,
}

/// All changes that hold.
#[derive(Debug, Clone)]
pub struct Steering {
    file: Arc<KeptFile>,
    all: Vec<Steered>,
}

/// The file, which is this agent's as long as this is there.
#[derive(Debug)]
struct KeptFile {
    path: PathBuf,
    _lock: LockFile,
}

/// Content of the file.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    version: u32,
    overrides: Vec<Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    change: Change,
    /// In seconds since the epoch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    until: Option<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
enum Change {
    Drain {
        ip: IpAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<NonZeroU16>,
    },
    DrainNode {
        node: String,
    },
    Weight {
        namespace: String,
        name: String,
        ip: IpAddr,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        port: Option<NonZeroU16>,
        weight: u32,
    },
}

impl Steering {
    /// Takes the file for this agent alone, and reads it; without a file, nothing is changed.
    ///
    /// # Errors
    ///
    /// It cannot be read, or another agent has it.
    pub fn open(file: PathBuf) -> Result<Self, SteeringError> {
        let file = KeptFile::take(file)?;
        let all = read(&file.path)?.unwrap_or_default();
        Ok(Self {
            file: Arc::new(file),
            all,
        })
    }

    /// As [`Self::open`]. If there is no file yet, the changes are those of the file `earlier`, which versions before
    /// shared between all agents of a directory. It is read once, since the file is written at once, and stays for
    /// the other agents.
    ///
    /// # Errors
    ///
    /// As [`Self::open`], or the file cannot be written.
    pub fn open_after(file: PathBuf, earlier: &Path) -> Result<Self, SteeringError> {
        let file = KeptFile::take(file)?;
        if let Some(all) = read(&file.path)? {
            let file = Arc::new(file);
            return Ok(Self { file, all });
        }
        let known = read(earlier)?;
        let is_taken_over = known.is_some();
        let steering = Self {
            file: Arc::new(file),
            all: known.unwrap_or_default(),
        };
        if is_taken_over {
            steering.save()?;
            info!(
                "{} overrides of {}, the file of earlier versions, hold on: they are kept in {} from now on",
                steering.all.len(),
                earlier.display(),
                steering.file.path.display()
            );
        }
        Ok(steering)
    }

    /// Returns the changes.
    pub(super) fn overrides(&self) -> Overrides {
        Overrides::new(self.all.iter().map(|steered| steered.change.clone()))
    }

    /// Each change, with its end.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Steered> {
        self.all.iter()
    }

    /// With this change, in place of one that has the same target.
    pub(super) fn with(&self, new: Steered) -> Self {
        let mut all = self.all.clone();
        all.retain(|known| !known.change.has_target_of(&new.change));
        all.push(new);
        Self {
            file: Arc::clone(&self.file),
            all,
        }
    }

    /// Without the change that has the target of this one; `None` if there is none.
    pub(super) fn without(&self, change: &Override) -> Option<Self> {
        self.filtered(|known| !known.change.has_target_of(change))
    }

    /// Without those whose time is over; `None` if there are none.
    pub(super) fn without_ended(&self, now: SystemTime) -> Option<Self> {
        self.filtered(|known| known.until.is_none_or(|until| until > now))
    }

    fn filtered(&self, stays: impl Fn(&Steered) -> bool) -> Option<Self> {
        let all: Vec<_> = self
            .all
            .iter()
            .filter(|known| stays(known))
            .cloned()
            .collect();
        (all.len() < self.all.len()).then(|| Self {
            file: Arc::clone(&self.file),
            all,
        })
    }

    /// Returns the time until the next change ends; `None` if none does.
    pub(super) fn next_end(&self, now: SystemTime) -> Option<Duration> {
        let ends = self.all.iter().filter_map(|steered| steered.until);
        ends.min()
            .map(|end| end.duration_since(now).unwrap_or_default())
    }

    /// Writes the file: it is as it was, or as it is to be.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub(super) fn save(&self) -> Result<(), SteeringError> {
        let Self { file, all } = self;
        let file = &file.path;
        let content = Content {
            version: VERSION,
            overrides: all.iter().map(Entry::from).collect(),
        };
        let text = serde_json::to_vec(&content).map_err(|error| SteeringError::Damaged {
            path: file.clone(),
            reason: error.to_string(),
        })?;
        Ok(replace(file, &text)?)
    }
}

impl KeptFile {
    /// Locks the file; makes its folder if there is none.
    fn take(path: PathBuf) -> Result<Self, SteeringError> {
        if let Some(folder) = path.parent().filter(|folder| *folder != Path::new("")) {
            make_folder(folder).map_err(|source| SteeringError::Io {
                what: "cannot make the folder",
                path: folder.to_owned(),
                source,
            })?;
        }
        match LockFile::try_take(&LockFile::beside(&path)) {
            Ok(lock) => Ok(Self { path, _lock: lock }),
            Err(LockError::Held { path: _, holder }) => Err(SteeringError::InUse { path, holder }),
            Err(error) => Err(SteeringError::Lock(error)),
        }
    }
}

/// Reads the changes in a file; `None` if there is no file.
fn read(file: &Path) -> Result<Option<Vec<Steered>>, SteeringError> {
    let content = match fs::read(file) {
        Ok(content) => content,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => {
            return Err(SteeringError::Io {
                what: "cannot read the overrides in",
                path: file.to_owned(),
                source,
            });
        }
    };
    let damaged = |reason: String| SteeringError::Damaged {
        path: file.to_owned(),
        reason,
    };
    let Content { version, overrides } =
        serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
    if version != VERSION {
        return Err(damaged(format!(
            "it has version {version}, and this agent reads {VERSION}"
        )));
    }
    Ok(Some(overrides.into_iter().map(Steered::from).collect()))
}

impl From<Entry> for Steered {
    fn from(entry: Entry) -> Self {
        let Entry { change, until } = entry;
        Self {
            change: match change {
                Change::Drain { ip, port } => Override::Drain { ip, port },
                Change::DrainNode { node } => Override::DrainNode { node },
                Change::Weight {
                    namespace,
                    name,
                    ip,
                    port,
                    weight,
                } => Override::Weight {
                    service: ServiceId::new(&namespace, &name),
                    ip,
                    port,
                    weight,
                },
            },
            until: until.map(|seconds| {
                let end = UNIX_EPOCH.checked_add(Duration::from_secs(seconds));
                end.unwrap_or(UNIX_EPOCH)
            }),
        }
    }
}

impl From<&Steered> for Entry {
    fn from(steered: &Steered) -> Self {
        let Steered { change, until } = steered;
        Self {
            change: match change.clone() {
                Override::Drain { ip, port } => Change::Drain { ip, port },
                Override::DrainNode { node } => Change::DrainNode { node },
                Override::Weight {
                    service: ServiceId { namespace, name },
                    ip,
                    port,
                    weight,
                } => Change::Weight {
                    namespace: namespace.into(),
                    name: name.into(),
                    ip,
                    port,
                    weight,
                },
            },
            until: until.map(|end| end.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{os::unix::fs::symlink, process};

    use super::{SteeringError::InUse, *};

    fn drain(last: u8) -> Override {
        Override::Drain {
            ip: [10, 1, 1, last].into(),
            port: NonZeroU16::new(8080),
        }
    }

    fn weight(weight: u32) -> Override {
        Override::Weight {
            service: ServiceId::new("default", "web"),
            ip: [10, 1, 1, 3].into(),
            port: None,
            weight,
        }
    }

    fn forever(change: Override) -> Steered {
        Steered {
            change,
            until: None,
        }
    }

    #[test]
    fn what_is_saved_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run/overrides.json");
        let empty = Steering::open(file.clone()).unwrap();
        assert!(empty.overrides().is_empty());
        let until = UNIX_EPOCH + Duration::from_secs(2_000_000_000);
        let node = Override::DrainNode {
            node: "node-2".into(),
        };
        let steering = empty
            .with(forever(drain(3)))
            .with(forever(weight(7)))
            .with(Steered {
                change: node,
                until: Some(until),
            });
        steering.save().unwrap();
        let InUse { path: _, holder } = Steering::open(file.clone()).unwrap_err() else {
            panic!("a file is for one agent");
        };
        assert_eq!(holder.pid, Some(process::id()));
        let all = steering.all.clone();
        drop((empty, steering));
        assert_eq!(Steering::open(file.clone()).unwrap().all, all);

        for content in ["", "{}", r#"{"version":2,"overrides":[]}"#] {
            fs::write(&file, content).unwrap();
            let error = Steering::open(file.clone()).unwrap_err();
            assert!(matches!(error, SteeringError::Damaged { .. }), "{error}");
        }
    }

    #[test]
    fn a_change_replaces_the_one_with_its_target_and_ends_in_time() {
        let now = UNIX_EPOCH + Duration::from_secs(1000);
        let until = now + Duration::from_mins(1);
        let folder = tempfile::tempdir().unwrap();
        let steering = Steering::open(folder.path().join("overrides.json")).unwrap();
        let steering = steering.with(forever(weight(7))).with(forever(weight(8)));
        assert_eq!(steering.all, [forever(weight(8))]);
        assert_eq!(steering.next_end(now), None);
        let steering = steering.with(Steered {
            change: drain(3),
            until: Some(until),
        });
        assert_eq!(steering.next_end(now), Some(Duration::from_mins(1)));
        assert!(steering.without_ended(now).is_none());
        let ended = steering.without_ended(until).unwrap();
        assert_eq!(ended.all, [forever(weight(8))]);
        assert!(ended.without(&drain(3)).is_none());
        assert_eq!(ended.without(&weight(1)).unwrap().all, []);
    }

    #[test]
    fn each_agent_of_a_directory_takes_the_earlier_file_over_once() {
        let folder = tempfile::tempdir().unwrap();
        let earlier = folder.path().join("overrides.json");
        Steering::open(earlier.clone())
            .unwrap()
            .with(forever(drain(3)))
            .save()
            .unwrap();
        for name in ["a.sock.overrides.json", "b.sock.overrides.json"] {
            let file = folder.path().join(name);
            let taken = Steering::open_after(file.clone(), &earlier).unwrap();
            assert_eq!(taken.all, [forever(drain(3))], "{name}");
            taken.without(&drain(3)).unwrap().save().unwrap();
            drop(taken);
            let again = Steering::open_after(file, &earlier).unwrap();
            assert_eq!(again.all, [], "{name}: what ended stays so");
        }
    }

    #[test]
    fn a_directory_without_an_earlier_file_has_no_overrides() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.sock.overrides.json");
        let none = folder.path().join("overrides.json");
        assert_eq!(Steering::open_after(file.clone(), &none).unwrap().all, []);
        assert!(!file.exists());
    }

    #[test]
    fn no_link_is_followed_by_a_save() {
        let folder = tempfile::tempdir().unwrap();
        let precious = folder.path().join("precious");
        fs::write(&precious, "precious").unwrap();
        symlink(&precious, folder.path().join("overrides.json.new")).unwrap();
        let steering = Steering::open(folder.path().join("overrides.json")).unwrap();
        steering.with(forever(drain(3))).save().unwrap();
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
    }
}
