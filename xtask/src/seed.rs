//! A target folder that begins with what another one has of the packages of registries, so that a
//! second build of the workspace takes a minute and not ten.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};

/// Folders of a profile's folder in which cargo keeps packages.
const FOLDERS: [&str; 3] = [".fingerprint", "build", "deps"];

/// Gives `to`, if it is not there yet, what `from` has of other packages than ours: as further
/// names of the same files, to which nothing is written again. Cargo decides itself what of it fits.
pub(crate) fn seed(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        return Ok(());
    }
    for folder in FOLDERS {
        let (from, to) = (from.join(folder), to.join(folder));
        fs::create_dir_all(&to).with_context(|| format!("cannot make {}", to.display()))?;
        for entry in entries(&from)? {
            let Some(name) = entry.file_name() else {
                continue;
            };
            if !is_ours(&name.to_string_lossy()) {
                link_all(&entry, &to.join(name))
                    .with_context(|| format!("cannot link {}", entry.display()))?;
            }
        }
    }
    Ok(())
}

/// Returns whether a file is of one of the workspace's packages.
fn is_ours(name: &str) -> bool {
    [
        "shunt",
        "libshunt",
        "kubectl",
        "libkubectl",
        "xtask",
        "sandbox",
        "libsandbox",
    ]
    .iter()
    .any(|ours| name.starts_with(ours))
}

/// Returns the paths in a folder; none if it is not there.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries,
    };
    entries
        .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect())
        .with_context(|| format!("cannot list {}", folder.display()))
}

/// Links a file, or each file of a folder.
fn link_all(from: &Path, to: &Path) -> io::Result<()> {
    if !from.is_dir() {
        return fs::hard_link(from, to);
    }
    fs::create_dir(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        link_all(&entry.path(), &to.join(entry.file_name()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_other_packages_are_seeded() {
        for (name, ours) in [
            ("libserde-0123.rlib", false),
            ("libshunt_common-0123.rlib", true),
            ("shunt-toolchain-0123", true),
            ("xtask-0123.d", true),
        ] {
            assert_eq!(is_ours(name), ours, "{name}");
        }
    }
}
