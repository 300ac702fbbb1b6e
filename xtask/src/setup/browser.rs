//! A browser, for the tests of the agent's page: the distribution's Chromium, and playwright, which drives
//! it, in cargo's folder.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::{
    fetch::{Download, Sum, fetch},
    tools,
};
use crate::{process, workspace};

/// The package of the tested version. It brings no browser of its own and depends on no other package, so its
/// archive is all of it. It does not need npm, which Debian's nodejs lacks.
const PLAYWRIGHT: &str = "playwright-core";
const VERSION: &str = "1.65.1";

/// The checksum of its archive: `dist.integrity` in the registry.
const SUM: Sum = Sum::Sha512(
    "86a3e9cfb6e548c3f1595768784d728814b35ec2a254e77693e9230af994cb00f618f3b60ddf477dc5a7abd34dd0\
     61db3590c5819f497c116bf97e7f04ba34ab",
);

/// The source of npm's packages, unless npm's own variable names another one.
const REGISTRY: &str = "https://registry.npmjs.org";

/// Makes sure that both are there. Returns the folder that playwright is in.
///
/// # Errors
///
/// One of them is not there and cannot be had.
pub(crate) fn ensure() -> Result<PathBuf> {
    tools::browser()?;
    let folder = workspace::output("playwright")?;
    if installed(&folder) {
        return Ok(folder);
    }
    let registry = env::var("npm_config_registry").unwrap_or_else(|_| REGISTRY.to_owned());
    let archive = folder.join("playwright.tgz");
    let url = format!(
        "{}/{PLAYWRIGHT}/-/{PLAYWRIGHT}-{VERSION}.tgz",
        registry.trim_end_matches('/')
    );
    let download = Download {
        name: PLAYWRIGHT,
        sum: SUM,
        urls: &[&url],
    };
    fetch(download, &archive)?;
    unpack(&archive, &package(&folder))?;
    fs::remove_file(&archive).with_context(|| format!("cannot remove {}", archive.display()))?;
    if !installed(&folder) {
        bail!("{PLAYWRIGHT} {VERSION} was installed and is not there");
    }
    Ok(folder)
}

/// Unpacks a package of npm's in place of the old one.
fn unpack(archive: &Path, to: &Path) -> Result<()> {
    let new = to.with_extension("new");
    for old in [&new, to] {
        if old.exists() {
            fs::remove_dir_all(old).with_context(|| format!("cannot remove {}", old.display()))?;
        }
    }
    fs::create_dir_all(&new).with_context(|| format!("cannot make {}", new.display()))?;
    process::run(
        Command::new("tar")
            .args([
                "--extract",
                "--gzip",
                "--strip-components=1",
                "--no-same-owner",
            ])
            .arg("--file")
            .arg(archive)
            .arg("--directory")
            .arg(&new),
    )?;
    fs::rename(&new, to).with_context(|| format!("cannot make {}", to.display()))
}

fn package(folder: &Path) -> PathBuf {
    folder.join("node_modules").join(PLAYWRIGHT)
}

/// Returns whether the folder has the right one.
fn installed(folder: &Path) -> bool {
    let manifest = package(folder).join("package.json");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    let manifest = serde_json::from_str::<serde_json::Value>(&manifest);
    manifest.is_ok_and(|manifest| manifest["version"] == VERSION)
}
