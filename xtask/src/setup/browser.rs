//! A browser, for the tests of the agent's page: Debian's Chromium, and playwright, which drives it, in
//! cargo's folder.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Result, bail};

use super::tools;
use crate::{process, workspace};

/// What was tried with. It brings no browser of its own.
const PLAYWRIGHT: &str = "playwright-core";
const VERSION: &str = "1.65.1";

/// Makes sure that both are there. Gives the folder that playwright is in.
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
    if process::output(Command::new("npm").arg("--version")).is_err() {
        bail!("`npm` is missing, which brings {PLAYWRIGHT}: install the package npm as root");
    }
    fs::create_dir_all(&folder)?;
    process::quiet_step(
        "setup: fetch playwright",
        Command::new("npm")
            .args(["install", "--no-audit", "--no-fund", "--ignore-scripts"])
            .arg("--prefix")
            .arg(&folder)
            .arg(format!("{PLAYWRIGHT}@{VERSION}")),
    )?;
    if !installed(&folder) {
        bail!("{PLAYWRIGHT} {VERSION} was installed and is not there");
    }
    Ok(folder)
}

/// Whether the folder has the right one.
fn installed(folder: &Path) -> bool {
    let manifest = folder
        .join("node_modules")
        .join(PLAYWRIGHT)
        .join("package.json");
    let manifest = fs::read_to_string(manifest).unwrap_or_default();
    let manifest = serde_json::from_str::<serde_json::Value>(&manifest);
    manifest.is_ok_and(|manifest| manifest["version"] == VERSION)
}
