//! rustup's nightly compiler: builds `core` for BPF itself, from the standard library's sources.
//!
//! rustup verifies each archive by the checksum in its manifest. In addition, this module compares the
//! archives that it installs with the checksums below.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::version;
use shunt_toolchain::{RUST_SRC, Toolchain};

use crate::process;

/// The nightly that is installed where there is none: its date, by which rustup knows it.
const PINNED: &str = "nightly-2026-05-20";

/// The version that its compiler reports.
const VERSION: &str = "rustc 1.97.0-nightly (e50aa6fba 2026-05-19)";

/// SHA-256 of the archives that are unpacked, by their names in rustup's manifest.
const ARCHIVES: [(&str, &str); 2] = [
    (
        "2026-05-20/rustc-nightly-x86_64-unknown-linux-gnu.tar.xz",
        "1cd9bc70d6397e4173f037f05337b086b55269e34e0fe9ca68024b158fcaeafb",
    ),
    (
        "2026-05-20/rust-src-nightly.tar.xz",
        "2bd8b226238befcd267bb5dd851205cdb594ea9d0eda8f93d81f8fabba9ae668",
    ),
];

/// The names of nightlies that may be there, best first: the pinned one, and the user's own.
const NAMES: [&str; 2] = [PINNED, "nightly"];

/// Returns the command that installs it by hand.
pub(super) fn command() -> String {
    format!("rustup toolchain install {PINNED} --profile minimal --component rust-src")
}

/// Returns whether rustup is here.
pub(super) fn has_rustup() -> bool {
    process::output(rustup().arg("--version")).is_ok()
}

/// The installed nightlies with the sources of the standard library, best first.
pub(super) fn find() -> Vec<Toolchain> {
    NAMES
        .into_iter()
        .filter_map(|name| named(name).ok())
        .collect()
}

/// Returns whether the pinned nightly is complete.
pub(super) fn has_pinned() -> bool {
    named(PINNED).is_ok()
}

/// The nightly of this name, with the sources of the standard library.
fn named(name: &str) -> Result<Toolchain> {
    let rustc = which(name, "rustc")?;
    if !has_sources(&rustc) {
        bail!("{name} comes without rust-src");
    }
    Ok(Toolchain {
        way: "nightly".to_owned(),
        cargo: which(name, "cargo")?,
        version: version(&rustc)?,
        rustc,
        args: vec!["-Zbuild-std=core".to_owned()],
    })
}

/// Returns whether the sources of the standard library are beside this compiler.
pub(super) fn has_sources(rustc: &Path) -> bool {
    rustc
        .ancestors()
        .nth(2)
        .is_some_and(|sysroot| sysroot.join(RUST_SRC).join("library/core").is_dir())
}

/// Installs the pinned nightly. One that is the user's stays as it is.
pub(super) fn install() -> Result<Toolchain> {
    process::step(
        "setup: install the nightly compiler",
        rustup()
            .args(["toolchain", "install", PINNED, "--profile", "minimal"])
            .args(["--component", "rust-src", "--no-self-update"]),
    )?;
    let toolchain = named(PINNED)?;
    if toolchain.version != VERSION {
        bail!("{PINNED} is `{}`, not `{VERSION}`", toolchain.version);
    }
    let sysroot = toolchain.rustc.ancestors().nth(2);
    let manifest = sysroot
        .context("the compiler is in no toolchain")?
        .join("lib/rustlib/multirust-channel-manifest.toml");
    let text = fs::read_to_string(&manifest)
        .with_context(|| format!("cannot read {}", manifest.display()))?;
    check_archives(&text)?;
    Ok(toolchain)
}

/// Checks the checksums that rustup verified its archives by.
fn check_archives(manifest: &str) -> Result<()> {
    for (archive, sum) in ARCHIVES {
        let mut lines = manifest.lines();
        let named = lines
            .any(|line| line.starts_with("xz_url = ") && line.ends_with(&format!("/{archive}\"")));
        let found = lines.next().unwrap_or_default();
        if !named || found != format!("xz_hash = \"{sum}\"") {
            bail!("rustup's {archive} is not the one that was tried: `{found}`, not {sum}");
        }
    }
    Ok(())
}

/// `rustup` that installs only what it is asked for, and gives up soon on a dead network.
fn rustup() -> Command {
    let mut command = Command::new("rustup");
    command
        .env("RUSTUP_AUTO_INSTALL", "0")
        .env("RUSTUP_MAX_RETRIES", "1");
    command
}

/// Returns the absolute path of a program of an installed nightly.
fn which(name: &str, program: &str) -> Result<PathBuf> {
    process::output(rustup().args(["which", "--toolchain", name, program]))
        .map(PathBuf::from)
        .with_context(|| format!("rustup has no {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(sum: &str) -> String {
        let mut text = String::from("manifest-version = \"2\"\n");
        for (archive, _) in ARCHIVES {
            text.push_str(&format!(
                "hash = \"00\"\nxz_url = \"https://static.rust-lang.org/dist/{archive}\"\n\
                 xz_hash = \"{sum}\"\n"
            ));
        }
        text
    }

    #[test]
    fn archives_of_other_content_are_refused() {
        let [(_, rustc), (_, sources)] = ARCHIVES;
        check_archives(&manifest(rustc)).unwrap_err();
        check_archives("").unwrap_err();
        let first = manifest(rustc);
        let (first, _) = first
            .split_once(
                "hash = \"00\"\nxz_url = \"https://static.rust-lang.org/dist/2026-05-20/rust-src",
            )
            .unwrap();
        let second = manifest(sources);
        let (_, second) = second.split_once("xz_hash").unwrap();
        let (_, second) = second.split_once('\n').unwrap();
        check_archives(&format!("{first}{second}")).unwrap();
    }
}
