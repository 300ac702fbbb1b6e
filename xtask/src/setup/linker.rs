//! `bpf-linker`, in the workspace's own folder: other projects may need another one.

use std::{env, fs, path::Path, process::Command};

use anyhow::{Context as _, Result, bail};

use super::{
    debian::{LLVM_FEATURE, LLVM_PREFIX},
    way::Way,
};
use shunt_toolchain::FOLDER;

use crate::{process, workspace};

/// The release that goes with aya 0.14 and LLVM 22.
const VERSION: &str = "0.13.0";

/// Checks that the linker is there, starts, and is the pinned release.
pub(super) fn check(root: &Path) -> Result<()> {
    let linker = root.join(FOLDER).join("bin/bpf-linker");
    let version = process::output(Command::new(linker).arg("--version"))?;
    if !version.split_whitespace().any(|word| word == VERSION) {
        bail!("`{version}` is not bpf-linker {VERSION}");
    }
    Ok(())
}

/// Installs the linker for a way's LLVM, unless it is there.
pub(super) fn ensure(root: &Path, way: Way) -> Result<()> {
    // A released linker carries its own LLVM, one built here uses Debian's: either reads what its
    // own way compiles, but not for certain what the other does.
    let mark = root.join(FOLDER).join("linker");
    let built_for = match way {
        Way::NightlyReady | Way::NightlyInstall => "release",
        Way::DebianReady | Way::DebianInstall => LLVM_FEATURE,
    };
    if check(root).is_ok() && fs::read_to_string(&mark).is_ok_and(|mark| mark == built_for) {
        return Ok(());
    }
    match way {
        Way::NightlyReady | Way::NightlyInstall => fetch(root)?,
        Way::DebianReady | Way::DebianInstall => build(root)?,
    }
    check(root).context("bpf-linker was installed and does not start")?;
    fs::write(&mark, built_for).with_context(|| format!("cannot write {}", mark.display()))
}

/// Builds the linker against Debian's LLVM.
fn build(root: &Path) -> Result<()> {
    process::step(
        "setup: build bpf-linker (a minute or two)",
        install(root)
            .env("LLVM_PREFIX", LLVM_PREFIX)
            // Quicker to build, and no slower to use: the work is done in LLVM's library.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .args(["bpf-linker", "--version", VERSION, "--no-default-features"])
            .args(["--features", LLVM_FEATURE]),
    )
}

/// Fetches the released linker, which has its LLVM inside.
fn fetch(root: &Path) -> Result<()> {
    if process::output(Command::new("cargo-binstall").arg("-V")).is_err() {
        process::step(
            "setup: build cargo-binstall (some minutes)",
            install(root).arg("cargo-binstall"),
        )?;
    }
    let ours = root.join(FOLDER);
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(
        [ours.join("bin")]
            .into_iter()
            .chain(env::split_paths(&path)),
    )?;
    process::step(
        "setup: fetch bpf-linker",
        Command::new("cargo-binstall")
            .env("PATH", path)
            .args(["--no-confirm", "--force", "--root"])
            .arg(ours)
            .arg(format!("bpf-linker@{VERSION}")),
    )
}

/// `cargo install` into the workspace's folder, with the dependencies its author tried.
fn install(root: &Path) -> Command {
    let mut command = workspace::cargo(root);
    command
        .args(["install", "--locked", "--force", "--root"])
        .arg(root.join(FOLDER));
    command
}
