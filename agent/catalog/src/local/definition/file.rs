//! Definitions in files.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;
use thiserror::Error;

use crate::local::definition::{
    check::CheckDefinition,
    fields::{Fields, Malformed},
    service::ServiceDefinition,
};

/// Definitions of files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Defined {
    /// Services, each id once.
    pub(crate) services: Vec<ServiceDefinition>,
    /// Checks of services or of the node.
    pub(crate) checks: Vec<CheckDefinition>,
}

/// Definitions cannot be read.
#[derive(Debug, Error)]
pub enum DefinitionError {
    /// The file or folder cannot be read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It is in Consul's other form.
    #[error("{}: HCL is not read here: write the definitions as JSON", .0.display())]
    Hcl(PathBuf),
    /// It is not JSON.
    #[error("{}: {source}", path.display())]
    Json {
        /// Path of the file.
        path: PathBuf,
        /// The error in it.
        source: serde_json::Error,
    },
    /// Something in it is wrong.
    #[error("{}: {reason}", path.display())]
    Definition {
        /// Path of the file.
        path: PathBuf,
        /// The error.
        reason: String,
    },
    /// A service is defined twice.
    #[error("{}: service {id} is defined in {}, too: an id is for one", path.display(), other.display())]
    Twice {
        /// Path of the second definition.
        path: PathBuf,
        /// Path of the first one.
        other: PathBuf,
        /// Its id.
        id: String,
    },
}

impl Defined {
    /// Reads a file, or all files of a folder whose name ends with `.json`, in the order of their names.
    ///
    /// # Errors
    ///
    /// Any of them cannot be read: all of it is as it should be, or nothing is taken.
    pub(crate) fn read(path: &Path) -> Result<Self, DefinitionError> {
        let mut all = Self::default();
        let mut seen = BTreeMap::<String, PathBuf>::new();
        for path in files(path)? {
            let Self { services, checks } = one(&path)?;
            for service in services {
                let id = service.own_id().to_owned();
                if let Some(other) = seen.insert(id.clone(), path.clone()) {
                    return Err(DefinitionError::Twice { path, other, id });
                }
                all.services.push(service);
            }
            all.checks.extend(checks);
        }
        Ok(all)
    }
}

/// The files at a path.
fn files(path: &Path) -> Result<Vec<PathBuf>, DefinitionError> {
    let failed = |source| DefinitionError::Io {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(failed)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let extension = file.extension().and_then(|extension| extension.to_str());
        if extension.is_some_and(|extension| ["json", "hcl"].contains(&extension)) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn one(path: &Path) -> Result<Defined, DefinitionError> {
    if path.extension().is_some_and(|extension| extension == "hcl") {
        return Err(DefinitionError::Hcl(path.to_owned()));
    }
    let text = fs::read(path).map_err(|source| DefinitionError::Io {
        path: path.to_owned(),
        source,
    })?;
    let value = serde_json::from_slice(&text).map_err(|source| DefinitionError::Json {
        path: path.to_owned(),
        source,
    })?;
    parse(value).map_err(|error| DefinitionError::Definition {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}

/// Reads what Consul reads of a configuration file: `service`, `services`, `check`, `checks`.
fn parse(value: Value) -> Result<Defined, Malformed> {
    let mut fields = Fields::of(value, "")?;
    let mut services: Vec<Fields> = fields.object("service")?.into_iter().collect();
    services.extend(fields.objects("services")?);
    let mut checks: Vec<Fields> = fields.object("check")?.into_iter().collect();
    checks.extend(fields.objects("checks")?);
    fields.finish()?;
    let services = services.into_iter().map(ServiceDefinition::read);
    let checks = checks.into_iter().map(CheckDefinition::read);
    Ok(Defined {
        services: services.collect::<Result<_, _>>()?,
        checks: checks.collect::<Result<_, _>>()?,
    })
}

#[cfg(test)]
mod tests {
    use std::{env, process};

    use super::*;

    /// A folder that goes with this.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder = env::temp_dir().join(format!("shunt-defined-{}-{name}", process::id()));
            fs::create_dir_all(&folder).unwrap();
            for (name, text) in files {
                fs::write(folder.join(name), text).unwrap();
            }
            Self(folder)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_folders_files_are_read_in_the_order_of_their_names() {
        let folder = Folder::new(
            "order",
            &[
                (
                    "b.json",
                    r#"{"service":{"name":"b"},"check":{"name":"c","ttl":"1s"}}"#,
                ),
                ("a.json", r#"{"services":[{"name":"a1"},{"name":"a2"}]}"#),
                ("notes.txt", "nothing of ours"),
            ],
        );
        let read = Defined::read(&folder.0).unwrap();
        let names: Vec<_> = read
            .services
            .iter()
            .map(ServiceDefinition::own_id)
            .collect();
        assert_eq!(names, ["a1", "a2", "b"]);
        assert_eq!(read.checks.len(), 1);
        let one = Defined::read(&folder.0.join("b.json")).unwrap();
        assert_eq!(one.services.len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_named() {
        for (name, files, refused) in [
            ("hcl", &[("a.hcl", "")][..], "HCL is not read here"),
            ("json", &[("a.json", "{")], "EOF while parsing"),
            (
                "field",
                &[("a.json", r#"{"server":true}"#)],
                "unknown field \"server\"",
            ),
            (
                "twice",
                &[
                    ("a.json", r#"{"service":{"name":"x"}}"#),
                    ("b.json", r#"{"service":{"name":"y","id":"x"}}"#),
                ],
                "service x is defined in",
            ),
        ] {
            let folder = Folder::new(name, files);
            let text = Defined::read(&folder.0).unwrap_err().to_string();
            assert!(text.contains(refused), "{text}");
            assert!(text.starts_with(folder.0.to_str().unwrap()), "{text}");
        }
        let text = Defined::read(Path::new("/nonexistent"))
            .unwrap_err()
            .to_string();
        assert_eq!(text, "/nonexistent: No such file or directory (os error 2)");
    }
}
