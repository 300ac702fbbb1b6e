//! `cargo xtask load`: the agent on this host's own interfaces.

use std::{path::PathBuf, process::Command};

use anyhow::Result;

use crate::{build, privilege, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Interface to attach to, besides those of the events; may be given more than once
    #[arg(long, value_name = "NAME", required = true)]
    interface: Vec<String>,
    /// Renderer events besides those of the agent's socket, one JSON object a line; `-` reads
    /// standard input
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Further arguments for `shunt agent`, such as `-- --socket PATH`
    #[arg(last = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        interface,
        events,
        rest,
    } = args;
    privilege::require("cargo xtask load")?;
    setup::ensure(setup::Needs::Build)?;

    let mut agent = Command::new(build::quick(&workspace::root()?)?.join("shunt"));
    // By hand, translation ends with the agent; a service manager starts the agent itself.
    agent.args(["agent", "--no-pin"]);
    for name in interface {
        agent.args(["--interface", name]);
    }
    if let Some(events) = events {
        agent.arg("--events").arg(events);
    }
    agent.args(rest);
    privilege::exec(agent)
}
