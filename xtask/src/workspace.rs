//! Places in this workspace, and the user that runs us.

use std::{
    env,
    ffi::OsStr,
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};
use serde_json::Value;

/// The workspace's folder.
pub(crate) fn root() -> Result<PathBuf> {
    // Cargo sets at run time where the package is, also when the folder was moved after the build.
    let package = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    let root = package
        .parent()
        .context("the package xtask is not inside a workspace")?;
    Ok(root.to_owned())
}

/// Cargo's output folder for a profile's folder name, `debug` or `release`.
///
/// Cargo put this very program into one of them, so no setting of the user's has to be read.
pub(crate) fn output(folder: &str) -> Result<PathBuf> {
    let this = env::current_exe().context("cannot tell where this program is")?;
    let target = this
        .ancestors()
        .nth(2)
        .context("this program is not in a target folder")?;
    Ok(target.join(folder))
}

/// The cargo that runs us, in the workspace at `root`, with the environment that one who types its
/// command has.
///
/// Cargo passes to a program that it runs which package this is. Build scripts that look at such
/// variables, as that of `ring` does, would run again, and all that depends on them be built anew,
/// each time that `cargo test` follows `cargo xtask test`.
pub(crate) fn cargo(root: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let variables = env::vars_os().map(|(name, _)| name);
    for name in variables.filter(|name| is_of_package(name)) {
        command.env_remove(name);
    }
    command.current_dir(root);
    command
}

/// Returns whether cargo sets this variable for the package that it runs.
fn is_of_package(variable: &OsStr) -> bool {
    let name = variable.as_encoded_bytes();
    name.starts_with(b"CARGO_PKG_") || name.starts_with(b"CARGO_MANIFEST_")
}

/// The path of the test or bench `name` in cargo's messages, a JSON object a line.
pub(crate) fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    messages
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter(|message| message["target"]["name"] == name && is_of_tests(message))
        .find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// Returns whether the message is of a test or bench, and not of a program of the same name.
fn is_of_tests(message: &Value) -> bool {
    let kinds = message["target"]["kind"].as_array();
    kinds.is_some_and(|kinds| kinds.iter().any(|kind| kind == "test" || kind == "bench"))
}

/// Returns whether this process is root's: the kernel gives its folder below `/proc` to the effective user.
pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// Fails for everyone but root. `what` is the command that was asked for, as typed.
pub(crate) fn require_root(what: &str) -> Result<()> {
    if !is_root() {
        bail!("`{what}` needs root, for BPF programs and network namespaces: type it as root");
    }
    Ok(())
}
