//! rustup's nightly compiler: builds `core` for BPF itself, from the standard library's sources.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::version;
use shunt_toolchain::{RUST_SRC, Toolchain};

use crate::process;

/// What to type to install it by hand.
pub(super) const COMMAND: &str = "rustup toolchain install nightly --component rust-src";

/// Whether rustup is here.
pub(super) fn has_rustup() -> bool {
    process::output(rustup().arg("--version")).is_ok()
}

/// The installed nightly, with the sources of the standard library.
pub(super) fn find() -> Result<Toolchain> {
    let rustc = which("rustc")?;
    if !has_sources(&rustc) {
        bail!("the nightly compiler comes without rust-src");
    }
    Ok(Toolchain {
        way: "nightly".to_owned(),
        cargo: which("cargo")?,
        version: version(&rustc)?,
        rustc,
        args: vec!["-Zbuild-std=core".to_owned()],
    })
}

/// Whether the sources of the standard library are beside this compiler.
pub(super) fn has_sources(rustc: &Path) -> bool {
    rustc
        .ancestors()
        .nth(2)
        .is_some_and(|sysroot| sysroot.join(RUST_SRC).join("library/core").is_dir())
}

/// Adds what is missing. A nightly that is there is the user's: it gets the sources of its own
/// date, and is never updated.
pub(super) fn install() -> Result<Toolchain> {
    let mut command = rustup();
    if which("rustc").is_ok() {
        command.args(["component", "add", "rust-src", "--toolchain", "nightly"]);
    } else {
        command.args(["toolchain", "install", "nightly", "--profile", "minimal"]);
        command.args(["--component", "rust-src", "--no-self-update"]);
    }
    process::step("setup: install the nightly compiler", &mut command)?;
    find()
}

/// `rustup` that installs only what it is asked for, and gives up soon on a dead network.
fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command
        .env("RUSTUP_AUTO_INSTALL", "0")
        .env("RUSTUP_MAX_RETRIES", "1");
    command
}

/// The absolute path of a program of the installed nightly.
fn which(program: &str) -> Result<PathBuf> {
    process::output(rustup().args(["which", "--toolchain", "nightly", program]))
        .map(PathBuf::from)
        .context("rustup has no nightly compiler")
}
