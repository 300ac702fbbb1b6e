//! `cargo xtask run`: the agent at work in a sandbox of network namespaces.

use std::{ffi::OsStr, process::Command};

use anyhow::Result;
use shunt_machine::Purpose;

use crate::{build, machine, privilege, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Follow a real Consul in place of a file of events
    #[arg(long, conflicts_with = "keep")]
    consul: bool,
    /// Leave the sandbox up afterwards
    #[arg(long)]
    keep: bool,
    /// Show the agent's page at http://127.0.0.1:9254/, or at another port; with --keep there is traffic to
    /// look at
    #[arg(
        long,
        value_name = "PORT",
        num_args = 0..=1,
        default_missing_value = "9254",
        conflicts_with = "consul"
    )]
    ui: Option<u16>,
    /// Further arguments for the sandbox; `-- --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        consul,
        keep,
        ui,
        rest,
    } = args;
    privilege::require("cargo xtask run")?;
    machine::require(Purpose::Demo)?;
    setup::ensure(setup::Needs::Network)?;
    let consul = consul.then(setup::consul::ensure).transpose()?;
    let root = workspace::root()?;
    let built = build::quick(&root)?;
    let mut sandbox = Command::new(built.join("sandbox"));
    sandbox
        .arg("--agent")
        .arg(built.join("shunt"))
        .arg("--events")
        .arg(root.join("docs/example-events.jsonl"))
        .args(keep.then_some("--keep"))
        .args(ui.iter().map(|port| format!("--ui={port}")))
        .args(
            consul
                .iter()
                .flat_map(|path| [OsStr::new("--consul"), path.as_os_str()]),
        )
        .args(rest);
    privilege::exec(sandbox)
}
