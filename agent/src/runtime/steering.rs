//! What an operator has changed on this node: kept in a file, so that it outlives the agent.

use std::{
    fs, io,
    net::IpAddr,
    num::NonZeroU16,
    path::{Path, PathBuf},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use shunt_model::{Override, Overrides, ServiceId};
use thiserror::Error;

/// The form of the file.
const VERSION: u32 = 1;

/// The file cannot be used.
#[derive(Debug, Error)]
pub enum SteeringError {
    /// It cannot be read or written.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why it failed.
        source: io::Error,
    },
    /// Its content makes no sense.
    #[error(
        "{} is damaged: {reason}; move it away to begin without overrides", path.display()
    )]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where, or what.
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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steering {
    file: PathBuf,
    all: Vec<Steered>,
}

/// What is in the file.
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
    /// What the file says; without a file, nothing is changed.
    ///
    /// # Errors
    ///
    /// It cannot be read.
    pub fn open(file: PathBuf) -> Result<Self, SteeringError> {
        let content = match fs::read(&file) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(Self {
                    file,
                    all: Vec::new(),
                });
            }
            Err(source) => {
                return Err(SteeringError::Io {
                    what: "cannot read the overrides in",
                    path: file,
                    source,
                });
            }
        };
        let damaged = |reason: String| SteeringError::Damaged {
            path: file.clone(),
            reason,
        };
        let Content { version, overrides } =
            serde_json::from_slice(&content).map_err(|error| damaged(error.to_string()))?;
        if version != VERSION {
            return Err(damaged(format!(
                "it has version {version}, and this agent reads {VERSION}"
            )));
        }
        let all = overrides.into_iter().map(Steered::from).collect();
        Ok(Self { file, all })
    }

    /// What is changed.
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
            file: self.file.clone(),
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
            file: self.file.clone(),
            all,
        })
    }

    /// How long it is until the next change ends; `None` if none does.
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
        let failed = |what, path: &Path| {
            let path = path.to_owned();
            move |source| SteeringError::Io { what, path, source }
        };
        let Self { file, all } = self;
        let content = Content {
            version: VERSION,
            overrides: all.iter().map(Entry::from).collect(),
        };
        let text = serde_json::to_vec(&content).map_err(|error| SteeringError::Damaged {
            path: file.clone(),
            reason: error.to_string(),
        })?;
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).map_err(failed("cannot make the folder", folder))?;
        }
        let mut draft = file.clone().into_os_string();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        fs::write(&draft, text).map_err(failed("cannot write", &draft))?;
        fs::rename(&draft, file).map_err(failed("cannot write", file))
    }
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
    use super::*;

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
        assert_eq!(Steering::open(file.clone()).unwrap(), steering);

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
        let steering = Steering {
            file: PathBuf::new(),
            all: Vec::new(),
        };
        let steering = steering.with(forever(weight(7))).with(forever(weight(8)));
        assert_eq!(steering.all, [forever(weight(8))]);
        assert_eq!(steering.next_end(now), None);
        let steering = steering.with(Steered {
            change: drain(3),
            until: Some(until),
        });
        assert_eq!(steering.next_end(now), Some(Duration::from_mins(1)));
        assert_eq!(steering.without_ended(now), None);
        let ended = steering.without_ended(until).unwrap();
        assert_eq!(ended.all, [forever(weight(8))]);
        assert_eq!(ended.without(&drain(3)), None);
        assert_eq!(ended.without(&weight(1)).unwrap().all, []);
    }
}
