//! A cache for the next clone, of files that are dear to build or to fetch: a folder beside cargo's own.
//!
//! ```text
//! $XDG_CACHE_HOME/shunt/SHELF/KEY      or $HOME/.cache/shunt/SHELF/KEY
//! ```
//!
//! A key names all that a file depends on, so an entry is never out of date. If a shelf grows beyond its
//! limit, it loses the entries that were not used for the longest time.

use std::{
    env,
    ffi::OsString,
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process,
    time::{Duration, SystemTime},
};

use anyhow::{Context as _, Result};

const MEGABYTE: u64 = 1_000_000;

/// The prefix of the names of unfinished copies.
const UNFINISHED: &str = ".new-";

/// The age at which an unfinished copy is abandoned.
const ABANDONED: Duration = Duration::from_hours(24);

/// The files of one kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shelf {
    folder: PathBuf,
    max_bytes: u64,
}

impl Shelf {
    /// Linkers for the kernel programs.
    pub(crate) fn linkers() -> Option<Self> {
        Self::of_user("linkers", 100 * MEGABYTE)
    }

    /// Agents of earlier revisions.
    pub(crate) fn agents() -> Option<Self> {
        Self::of_user("agents", 1000 * MEGABYTE)
    }

    /// Files that were fetched by their checksum.
    pub(crate) fn downloads() -> Option<Self> {
        Self::of_user("downloads", 200 * MEGABYTE)
    }

    /// Debian's packages, which `apt-get` itself puts here and finds by their version.
    pub(crate) fn packages() -> Option<Self> {
        Self::of_user("packages", 700 * MEGABYTE)
    }

    /// `None`: this user has no home.
    fn of_user(name: &str, max_bytes: u64) -> Option<Self> {
        let folder = folder(env::var_os("XDG_CACHE_HOME"), env::home_dir())?;
        Some(Self {
            folder: folder.join(name),
            max_bytes,
        })
    }

    /// Returns the folder of the shelf, which need not be there.
    pub(crate) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the entry with this key, if it is there. It counts as used now.
    pub(crate) fn get(&self, key: &str) -> Option<PathBuf> {
        let path = self.folder.join(file_name(key));
        let file = File::open(&path).ok()?;
        // A cache that cannot be written, of a container for example, is as good to read.
        drop(file.set_modified(SystemTime::now()));
        Some(path)
    }

    /// Copies the entry with this key to `to`, whole or not at all, and reports whether there is one.
    ///
    /// # Errors
    ///
    /// If it is there and cannot be copied.
    pub(crate) fn take(&self, key: &str, to: &Path) -> Result<bool> {
        let Some(entry) = self.get(key) else {
            return Ok(false);
        };
        if let Some(folder) = to.parent() {
            fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        copy_whole(&entry, to)
            .with_context(|| format!("cannot copy {} to {}", entry.display(), to.display()))?;
        Ok(true)
    }

    /// Keeps a copy of a file under this key. A failure costs the next clone some minutes, so it is no
    /// error.
    pub(crate) fn keep(&self, key: &str, file: &Path) {
        let kept = fs::create_dir_all(&self.folder)
            .and_then(|()| copy_whole(file, &self.folder.join(file_name(key))))
            .and_then(|()| self.trim());
        if let Err(error) = kept {
            eprintln!(
                "{} is not kept in {}: {error}",
                file.display(),
                self.folder.display()
            );
        }
    }

    /// Removes an entry that turned out to be of no use here.
    pub(crate) fn discard(&self, key: &str) {
        drop(fs::remove_file(self.folder.join(file_name(key))));
    }

    /// Removes the entries that were not used for the longest time until the rest is within the limit. The
    /// newest entry always stays.
    ///
    /// # Errors
    ///
    /// If the folder cannot be listed, or a file cannot be removed.
    pub(crate) fn trim(&self) -> io::Result<()> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            // Another setup may have removed it meanwhile.
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if !metadata.is_file() {
                continue;
            }
            let used = metadata.modified()?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                if used.elapsed().is_ok_and(|age| age > ABANDONED) {
                    remove(&entry.path())?;
                }
                continue;
            }
            entries.push((used, metadata.len(), entry.path()));
        }
        entries.sort();
        let mut bytes: u64 = entries.iter().map(|(_, length, _)| length).sum();
        let newest = entries.pop();
        for (_, length, path) in entries {
            if bytes <= self.max_bytes {
                break;
            }
            remove(&path)?;
            bytes -= length;
        }
        drop(newest);
        Ok(())
    }
}

/// Returns the folder of all shelves. A relative path in the variable is invalid, by its specification.
fn folder(variable: Option<OsString>, home: Option<PathBuf>) -> Option<PathBuf> {
    let given = variable
        .map(PathBuf::from)
        .filter(|path| path.is_absolute());
    let caches = given.or_else(|| {
        home.filter(|home| home.is_absolute())
            .map(|home| home.join(".cache"))
    })?;
    Some(caches.join("shunt"))
}

/// Returns a key as a file name: versions have blanks and brackets.
fn file_name(key: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
    let name = key.replace(|c| !plain(c), "_");
    name.trim_start_matches('.').to_owned()
}

/// Copies a file to another name first, so that the file with the right name is whole.
fn copy_whole(from: &Path, to: &Path) -> io::Result<()> {
    let name = to.file_name().unwrap_or_default().to_string_lossy();
    let new = to.with_file_name(format!("{UNFINISHED}{}-{name}", process::id()));
    let copied = fs::copy(from, &new)
        .and_then(|_| File::open(&new)?.sync_all())
        .and_then(|()| fs::rename(&new, to));
    if copied.is_err() {
        drop(fs::remove_file(&new));
    }
    copied
}

/// Removes a file that another process may be removing as well.
fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shelf in a folder of its own.
    struct Own(Shelf);

    impl Own {
        fn new(name: &str, max_bytes: u64) -> Self {
            let name = format!("shunt-cache-{}-{name}", process::id());
            Self(Shelf {
                folder: env::temp_dir().join(name),
                max_bytes,
            })
        }

        /// Keeps an entry of ten bytes that was used so many minutes ago.
        fn keep(&self, key: &str, minutes: u64) {
            let source = self.0.folder.with_extension("source");
            fs::write(&source, "0123456789").unwrap();
            self.0.keep(key, &source);
            fs::remove_file(&source).unwrap();
            self.age(key, Duration::from_mins(minutes));
        }

        fn age(&self, name: &str, age: Duration) {
            let file = File::open(self.0.folder.join(name)).unwrap();
            file.set_modified(SystemTime::now() - age).unwrap();
        }

        fn names(&self) -> Vec<String> {
            let mut names: Vec<_> = fs::read_dir(&self.0.folder)
                .unwrap()
                .map(|entry| entry.unwrap().file_name().into_string().unwrap())
                .collect();
            names.sort();
            names
        }
    }

    impl Drop for Own {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0.folder));
        }
    }

    #[test]
    fn the_folder_is_beside_cargos_unless_the_variable_names_another_one() {
        let home = || Some(PathBuf::from("/home/a"));
        let cases = [
            (None, home(), Some("/home/a/.cache/shunt")),
            (Some("/caches"), home(), Some("/caches/shunt")),
            (Some("/caches"), None, Some("/caches/shunt")),
            (Some("caches"), home(), Some("/home/a/.cache/shunt")),
            (Some(""), home(), Some("/home/a/.cache/shunt")),
            (None, None, None),
        ];
        for (variable, home, expected) in cases {
            let found = folder(variable.map(OsString::from), home);
            assert_eq!(found, expected.map(PathBuf::from), "{variable:?}");
        }
    }

    #[test]
    fn a_key_is_one_file_name() {
        for (key, expected) in [
            ("0.13.0-llvm-22.1.8", "0.13.0-llvm-22.1.8"),
            ("rustc 1.96.0 (a 2026)", "rustc_1.96.0__a_2026_"),
            ("../../etc/passwd", "_.._etc_passwd"),
        ] {
            assert_eq!(file_name(key), expected, "{key}");
        }
    }

    #[test]
    fn what_is_kept_is_found_by_its_key_alone() {
        let own = Own::new("found", 100);
        let to = own.0.folder.join("inner/copy");
        assert!(!own.0.take("a", &to).unwrap());
        own.keep("a", 0);
        assert!(own.0.take("a", &to).unwrap());
        assert_eq!(fs::read_to_string(&to).unwrap(), "0123456789");
        assert!(!own.0.take("b", &to).unwrap());
        own.0.discard("a");
        assert!(!own.0.take("a", &to).unwrap());
    }

    #[test]
    fn a_copy_that_fails_leaves_nothing_with_the_name() {
        let own = Own::new("whole", 100);
        own.keep("a", 0);
        // The name of the entry is a folder's, so the last step fails.
        fs::create_dir_all(own.0.folder.join("b/full")).unwrap();
        copy_whole(&own.0.folder.join("a"), &own.0.folder.join("b")).unwrap_err();
        assert_eq!(own.names(), ["a", "b"]);
        assert!(own.0.folder.join("b").is_dir());
    }

    #[test]
    fn the_entry_that_was_not_used_for_the_longest_time_goes_first() {
        let own = Own::new("limit", 30);
        for (key, minutes) in [("a", 40), ("b", 30), ("c", 20)] {
            own.keep(key, minutes);
        }
        assert_eq!(own.names(), ["a", "b", "c"], "three entries are the limit");
        own.0.get("a").unwrap();
        own.keep("d", 0);
        assert_eq!(own.names(), ["a", "c", "d"], "a was used meanwhile");
    }

    #[test]
    fn an_entry_above_the_limit_is_kept_alone() {
        let own = Own::new("large", 5);
        own.keep("a", 10);
        own.keep("b", 0);
        assert_eq!(own.names(), ["b"]);
    }

    #[test]
    fn an_unfinished_copy_goes_when_nobody_will_finish_it() {
        let own = Own::new("unfinished", 100);
        own.keep("a", 0);
        for (name, age) in [(".new-1-x", ABANDONED * 2), (".new-2-x", Duration::ZERO)] {
            fs::write(own.0.folder.join(name), "x").unwrap();
            own.age(name, age);
        }
        own.0.trim().unwrap();
        assert_eq!(own.names(), [".new-2-x", "a"]);
    }
}
