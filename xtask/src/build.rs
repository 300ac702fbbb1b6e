//! `cargo xtask build`: the agent, one binary with the kernel programs inside.

use std::path::{Path, PathBuf};

use anyhow::Result;

use crate::{process, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Optimised, which is the default
    #[arg(long, conflicts_with = "debug")]
    release: bool,
    /// Quick to build, slow to run
    #[arg(long)]
    debug: bool,
}

/// Builds the agent, optimised, for a command that runs it; gives where it is.
pub(crate) fn released_agent(root: &Path) -> Result<PathBuf> {
    process::step(
        "build the agent",
        workspace::cargo(root)
            .args(["build", "--release", "--package", "shunt"])
            .args(["--bin", "shunt"]),
    )?;
    Ok(workspace::output("release")?.join("shunt"))
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let &Args { release: _, debug } = args;
    setup::ensure(setup::Needs::Build)?;
    let mut cargo = workspace::cargo(&workspace::root()?);
    cargo.args(["build", "--package", "shunt", "--bin", "shunt"]);
    let folder = if debug {
        "debug"
    } else {
        cargo.arg("--release");
        "release"
    };
    process::run(&mut cargo)?;
    println!("{}", workspace::output(folder)?.join("shunt").display());
    Ok(())
}
