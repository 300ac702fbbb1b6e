//! `cargo xtask setup`: finds what the other commands need, and installs what is missing.
//!
//! The kernel programs need a compiler with `core` for BPF and a linker for the same LLVM. There is
//! more than one [`way`] to get them; the first that works is recorded for the agent's build script.

pub(crate) mod browser;
pub(crate) mod consul;
pub(crate) mod debian;
pub(crate) mod deny;
mod distribution;
mod fetch;
mod linker;
mod llvm;
mod nightly;
mod packaged;
mod probe;
mod promtool;
mod tools;
mod way;

use std::{
    fs::{self, File, TryLockError},
    io,
    path::Path,
    process::Command,
    time::Instant,
};

use anyhow::{Context as _, Result, anyhow, bail};

use shunt_toolchain::{FOLDER, RECORD, RecordError, Toolchain};

use crate::{process, workspace};
use llvm::Llvm;
use way::{Facts, Way};

/// Needs of a command from the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Needs {
    /// A toolchain for the kernel programs.
    Build,
    /// That, and the tools with which network namespaces are made.
    Network,
    /// That, and what some of the tests run: kube-proxy's rules, a container runtime, kubectl, clients
    /// of other projects.
    Test,
    /// [`Self::Network`], and what tests run that are run on other kernels, too.
    Kernels,
    /// The tools that make network namespaces, and those that load the rules which Shunt is compared
    /// with.
    Bench,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Forget the compiler for the kernel programs that was found before, and look for one again
    #[arg(long)]
    again: bool,
}

/// `cargo xtask setup`.
pub(crate) fn main(args: &Args) -> Result<()> {
    let &Args { again } = args;
    ensure_with(Needs::Network, again)
}

/// Makes sure that this machine has what is needed. Quick when it has.
pub(crate) fn ensure(needs: Needs) -> Result<()> {
    ensure_with(needs, false)
}

fn ensure_with(needs: Needs, again: bool) -> Result<()> {
    let start = Instant::now();
    let root = workspace::root()?;
    let folder = root.join(FOLDER);
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    // Held until the end: a second setup at the same time waits, and finds everything there.
    let _lock = lock(&folder.join("lock"))?;

    if again {
        forget(&root)?;
    }
    let toolchain = match recorded(&root) {
        Some(toolchain) => toolchain,
        None => find(&root)?,
    };
    tools::ensure(needs)?;
    if matches!(needs, Needs::Test | Needs::Bench)
        && let Err(error) = consul::ensure()
    {
        eprintln!("setup: {error:#}: what is done with Consul will be skipped");
    }
    if needs == Needs::Test
        && let Err(error) = promtool::ensure()
    {
        eprintln!("setup: {error:#}: the tests of the alerts will be skipped");
    }
    if needs == Needs::Test
        && let Err(error) = browser::ensure()
    {
        eprintln!("setup: {error:#}: the tests of the page in a browser will be skipped");
    }
    let Toolchain { way, version, .. } = toolchain;
    eprintln!(
        "setup: {version} ({way}): ready after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// Takes the lock of the setup, and prints a message if it has to wait.
fn lock(path: &Path) -> Result<File> {
    let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
    match file.try_lock() {
        Ok(()) => return Ok(file),
        Err(TryLockError::WouldBlock) => eprintln!("setup: waiting for another one to finish"),
        Err(TryLockError::Error(error)) => {
            return Err(error).with_context(|| format!("cannot lock {}", path.display()));
        }
    }
    file.lock()
        .with_context(|| format!("cannot lock {}", path.display()))?;
    Ok(file)
}

/// The recorded toolchain, if it still works.
fn recorded(root: &Path) -> Option<Toolchain> {
    let toolchain = match Toolchain::load(root) {
        Ok(toolchain) => toolchain,
        Err(RecordError::Missing) => return None,
        Err(error) => {
            eprintln!("setup: {error}");
            return None;
        }
    };
    match probe::still_there(root, &toolchain).and_then(|()| probe::once(root, &toolchain)) {
        Ok(()) => Some(toolchain),
        Err(error) => {
            eprintln!("setup: the recorded toolchain is no longer usable: {error:#}");
            if let Err(error) = forget(root) {
                eprintln!("setup: {error:#}");
            }
            None
        }
    }
}

/// Removes the record, so that no build uses it any more.
fn forget(root: &Path) -> Result<()> {
    probe::forget(root);
    let path = root.join(FOLDER).join(RECORD);
    match fs::remove_file(&path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// Tries the ways of this machine in order, and records the first that works.
fn find(root: &Path) -> Result<Toolchain> {
    let facts = Facts::gather();
    for way in facts.ways() {
        eprintln!("setup: trying {way}");
        match install(root, way) {
            Ok(toolchain) => {
                record(root, &toolchain)?;
                return Ok(toolchain);
            }
            Err(error) => eprintln!("setup: {way}: {error:#}"),
        }
    }
    bail!("there is no toolchain for BPF programs: {}", facts.advice())
}

/// Goes one way to its end: a compiler, a linker for its LLVM, and the proof that they work.
fn install(root: &Path, way: Way) -> Result<Toolchain> {
    let toolchains = match way {
        Way::NightlyReady => nightly::find(),
        Way::NightlyInstall => vec![nightly::install()?],
        Way::DebianReady => vec![debian::find()?],
        Way::DebianInstall => vec![debian::install()?],
    };
    let mut reason = anyhow!("there is no compiler");
    for toolchain in toolchains {
        match prove(root, &toolchain) {
            Ok(()) => return Ok(toolchain),
            Err(error) => reason = error.context(toolchain.version),
        }
    }
    Err(reason)
}

/// Installs the linker for a compiler, and shows that they work together.
fn prove(root: &Path, toolchain: &Toolchain) -> Result<()> {
    linker::ensure(root, &Llvm::of(&toolchain.rustc)?)?;
    probe::once(root, toolchain)
}

/// Writes the record, whole or not at all: a build may read it meanwhile.
fn record(root: &Path, toolchain: &Toolchain) -> Result<()> {
    let path = root.join(FOLDER).join(RECORD);
    let new = path.with_extension("new");
    fs::write(&new, render(toolchain))
        .and_then(|()| fs::rename(&new, &path))
        .with_context(|| format!("cannot write {}", path.display()))
}

/// The text that [`Toolchain::parse`] reads.
fn render(toolchain: &Toolchain) -> String {
    let Toolchain {
        way,
        cargo,
        rustc,
        version,
        args,
    } = toolchain;
    let mut text = format!(
        "# Written by `cargo xtask setup`, read by the agent's build script.\n\
         way={way}\ncargo={}\nrustc={}\nversion={version}\n",
        cargo.display(),
        rustc.display()
    );
    for arg in args {
        text.push_str(&format!("arg={arg}\n"));
    }
    text
}

/// Returns the output of `rustc --version`.
fn version(rustc: &Path) -> Result<String> {
    process::output(Command::new(rustc).arg("--version"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let toolchain = Toolchain {
            way: "nightly".to_owned(),
            cargo: "/home/a b/bin/cargo".into(),
            rustc: "/home/a b/bin/rustc".into(),
            version: "rustc 1.97.0-nightly".to_owned(),
            args: vec!["-Zbuild-std=core".to_owned(), "--quiet".to_owned()],
        };
        assert_eq!(Toolchain::parse(&render(&toolchain)).unwrap(), toolchain);
    }
}
