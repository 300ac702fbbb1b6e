//! `bpf-linker`, in the workspace's own folder: other projects may need another one.

use std::{
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, bail};

use super::llvm::Llvm;
use shunt_toolchain::FOLDER;

use crate::{cache::Shelf, process, workspace};

/// The version of cargo-binstall, which fetches a released linker. Cargo's registry holds its checksum.
const BINSTALL: &str = "1.24.0";

/// The target of a linker that comes with an LLVM of its own.
const RELEASE: &str = "release";

fn program(root: &Path) -> PathBuf {
    root.join(FOLDER).join("bin/bpf-linker")
}

/// Checks that the linker is there, starts, and is the release for this LLVM.
pub(super) fn check(root: &Path, llvm: &Llvm) -> Result<()> {
    let wanted = llvm.release.version;
    let version = process::output(Command::new(program(root)).arg("--version"))?;
    if !version.split_whitespace().any(|word| word == wanted) {
        bail!("`{version}` is not bpf-linker {wanted}");
    }
    Ok(())
}

/// Installs the linker for a compiler's LLVM, unless it is there: from the cache, or else built against
/// the LLVM of this machine, or else as it is released.
pub(super) fn ensure(root: &Path, llvm: &Llvm) -> Result<()> {
    // A released linker carries its own LLVM, one built here uses the machine's.
    let mark = root.join(FOLDER).join("linker");
    let prefix = llvm.prefix();
    let target = match prefix {
        Some(_) => llvm.release.feature,
        None => RELEASE,
    };
    if check(root, llvm).is_ok() && fs::read_to_string(&mark).is_ok_and(|mark| mark == target) {
        return Ok(());
    }
    let (shelf, key) = (Shelf::linkers(), llvm.key(target));
    if !take(root, llvm, shelf.as_ref(), &key)? {
        match prefix {
            Some(prefix) => build(root, llvm, &prefix)?,
            None => fetch(root, llvm)?,
        }
        check(root, llvm).context("bpf-linker was installed and does not start")?;
        if let Some(shelf) = shelf {
            shelf.keep(&key, &program(root));
        }
    }
    fs::write(&mark, target).with_context(|| format!("cannot write {}", mark.display()))
}

/// Takes the linker from the cache, if there is one that starts here.
fn take(root: &Path, llvm: &Llvm, shelf: Option<&Shelf>, key: &str) -> Result<bool> {
    let Some(shelf) = shelf else {
        return Ok(false);
    };
    if !shelf.take(key, &program(root))? {
        return Ok(false);
    }
    if let Err(error) = check(root, llvm) {
        eprintln!("setup: the linker of the cache is of no use here: {error:#}");
        shelf.discard(key);
        return Ok(false);
    }
    eprintln!("setup: bpf-linker comes from {}", shelf.folder().display());
    Ok(true)
}

/// Builds the linker against the LLVM of this machine. Cargo verifies the sources by the checksums of its
/// registry.
fn build(root: &Path, llvm: &Llvm, prefix: &Path) -> Result<()> {
    let release = llvm.release;
    process::step(
        "setup: build bpf-linker (a minute or two)",
        install(root)
            .env("LLVM_PREFIX", prefix)
            // Quicker to build, and no slower to use: the work is done in LLVM's library.
            .env("CARGO_PROFILE_RELEASE_DEBUG", "false")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            .args(["bpf-linker", "--version", release.version])
            .args(["--no-default-features", "--features", release.feature]),
    )
}

/// Fetches the released linker, which has its LLVM inside. Its version is all that is known beforehand:
/// the project publishes no checksums.
fn fetch(root: &Path, llvm: &Llvm) -> Result<()> {
    if process::output(Command::new("cargo-binstall").arg("-V")).is_err() {
        process::step(
            "setup: build cargo-binstall (some minutes)",
            install(root).args(["cargo-binstall", "--version", BINSTALL]),
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
            .arg(format!("bpf-linker@{}", llvm.release.version)),
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
