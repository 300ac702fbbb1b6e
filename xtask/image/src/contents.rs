//! Contents of the image.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};
use lddtree::DependencyAnalyzer;

/// Path of the binary.
pub(crate) const BINARY: &str = "shunt";

/// A file: whether it can be run, and what is in it.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) is_executable: bool,
    pub(crate) bytes: Vec<u8>,
}

/// Files by their names, without the first slash.
#[derive(Debug)]
pub(crate) struct Contents(BTreeMap<PathBuf, File>);

impl Contents {
    /// The binary, what the dynamic linker loads for it on this machine, and the license.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, the binary is none, or needs a library that is not here.
    pub(crate) fn of(binary: &Path, license: &Path) -> Result<Self> {
        let mut files = BTreeMap::from([
            (PathBuf::from(BINARY), File::read(binary, true)?),
            (PathBuf::from("LICENSE"), File::read(license, false)?),
        ]);
        let tree = DependencyAnalyzer::new("/".into())
            .analyze(binary)
            .with_context(|| format!("cannot tell what {} loads", binary.display()))?;
        // The dynamic linker is found by its full name, and loads the others by theirs.
        let linker = tree.interpreter.map(PathBuf::from);
        for library in tree.libraries.into_values() {
            let Some(from) = library.realpath else {
                bail!(
                    "{} needs {}, which is not on this machine",
                    binary.display(),
                    library.name
                );
            };
            let is_linker = linker
                .as_ref()
                .is_some_and(|linker| linker.ends_with(&library.name));
            let name = match &linker {
                Some(linker) if is_linker => linker.clone(),
                _ => Path::new("/usr/lib").join(&library.name),
            };
            let name = name.strip_prefix("/").unwrap_or(&name).to_owned();
            files.insert(name, File::read(&from, is_linker)?);
        }
        Ok(Self(files))
    }

    /// Each file with its name, sorted.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &File)> {
        self.0.iter().map(|(name, file)| (name.as_path(), file))
    }

    /// Their names as they are in a container.
    pub(crate) fn names(&self) -> impl Iterator<Item = String> {
        self.0.keys().map(|name| format!("/{}", name.display()))
    }
}

impl File {
    fn read(path: &Path, is_executable: bool) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Ok(Self {
            is_executable,
            bytes,
        })
    }
}
