//! `cargo xtask build`: the agent, one binary with the kernel programs inside.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{link, process, setup, workspace};

/// The minutes that the first build takes on two processors. docs/bench.md has the measurement.
pub(crate) const FIRST_MINUTES: u32 = 8;

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Optimised, as it is shipped: takes several times as long to build
    #[arg(long)]
    release: bool,
}

/// Builds the agent as it is shipped; returns its path.
pub(crate) fn released_agent(root: &Path) -> Result<PathBuf> {
    process::step(
        "build the optimised agent",
        workspace::cargo(root)
            .args(["build", "--release", "--package", "shunt"])
            .args(["--bin", "shunt"]),
    )?;
    Ok(workspace::output("release")?.join("shunt"))
}

/// Builds the agent as it is shipped in an image; returns its path.
pub(crate) fn agent_of_image(root: &Path) -> Result<PathBuf> {
    let arguments = link::smaller(root)?;
    process::step(
        "build the optimised agent of an image",
        workspace::cargo(root)
            .args(["rustc", "--release", "--package", "shunt"])
            .args(["--bin", "shunt", "--"])
            .args(arguments),
    )?;
    Ok(workspace::output("release")?.join("shunt"))
}

/// Builds `kubectl shunt` as it is shipped; returns its path.
pub(crate) fn released_kubectl(root: &Path) -> Result<PathBuf> {
    process::step(
        "build the optimised kubectl-shunt",
        workspace::cargo(root)
            .args(["build", "--release", "--package", "kubectl-shunt"])
            .args(["--bin", "kubectl-shunt"]),
    )?;
    Ok(workspace::output("release")?.join("kubectl-shunt"))
}

/// Builds the agent and the sandbox for trials and tests, quickly and not optimised. Returns the folder
/// that they are in.
pub(crate) fn quick(root: &Path) -> Result<PathBuf> {
    let built = workspace::output("debug")?;
    if !built.join("shunt").exists() {
        eprintln!(
            "the first build takes about {FIRST_MINUTES} minutes on two processors; later ones compile \
             what has changed"
        );
    }
    process::step(
        "build the agent and the sandbox",
        // Without `--package`, as for the tests: with the same features of dependencies.
        workspace::cargo(root).args([
            "build",
            "--bin",
            "shunt",
            "--bin",
            "kubectl-shunt",
            "--bin",
            "sandbox",
        ]),
    )?;
    Ok(built)
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let &Args { release } = args;
    setup::ensure(setup::Needs::Build)?;
    let root = workspace::root()?;
    let agent = if release {
        released_agent(&root)?
    } else {
        quick(&root)?.join("shunt")
    };
    println!("{}", agent.display());
    Ok(())
}
