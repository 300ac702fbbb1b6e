//! `cargo-deny`, in the workspace's own folder.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use shunt_toolchain::FOLDER;

use crate::{process, workspace};

/// The release whose `deny.toml` ours is.
const VERSION: &str = "0.20.2";

/// Installs it, unless it is there; returns where it is.
pub(crate) fn ensure(root: &Path) -> Result<PathBuf> {
    let program = root.join(FOLDER).join("bin/cargo-deny");
    if check(&program).is_err() {
        process::step(
            "setup: build cargo-deny (a minute or two)",
            workspace::cargo(root)
                // Quicker to build, and quick enough.
                .args(["install", "--locked", "--force", "--debug", "--no-default-features"])
                .args(["--config", "profile.dev.debug=false", "--root"])
                .arg(root.join(FOLDER))
                .args(["cargo-deny", "--version", VERSION]),
        )?;
        check(&program).context("cargo-deny was installed and does not start")?;
    }
    Ok(program)
}

fn check(program: &Path) -> Result<()> {
    let version = process::output(Command::new(program).arg("--version"))?;
    if !version.split_whitespace().any(|word| word == VERSION) {
        bail!("`{version}` is not cargo-deny {VERSION}");
    }
    Ok(())
}
