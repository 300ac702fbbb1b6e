//! `cargo xtask run`: the agent at work in a sandbox of network namespaces.

use std::process::Command;

use anyhow::Result;

use crate::{process, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Leave the sandbox up afterwards
    #[arg(long)]
    keep: bool,
    /// Further arguments for the sandbox; `-- --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args { keep, rest } = args;
    workspace::require_root("cargo xtask run")?;
    setup::ensure(setup::Needs::Network)?;
    let root = workspace::root()?;
    process::step(
        "build the agent and the sandbox",
        workspace::cargo(&root)
            .args([
                "build",
                "--release",
                "--package",
                "shunt",
                "--package",
                "shunt-tests",
            ])
            .args(["--bin", "shunt", "--bin", "sandbox"]),
    )?;

    let built = workspace::output("release")?;
    let mut sandbox = Command::new(built.join("sandbox"));
    sandbox
        .arg("--agent")
        .arg(built.join("shunt"))
        .arg("--events")
        .arg(root.join("docs/example-events.jsonl"))
        .args(keep.then_some("--keep"))
        .args(rest);
    process::exec(&mut sandbox)
}
