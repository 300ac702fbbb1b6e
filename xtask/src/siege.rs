//! `cargo xtask siege`: floods, resets, dead agents and changes against honest clients, all at once.

use std::process::Command;

use anyhow::Result;
use shunt_machine::Purpose;

use crate::{machine, privilege, process, setup, workspace};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Duration in minutes
    #[arg(long, value_name = "N", default_value_t = 5)]
    minutes: u64,
    /// The same siege on kube-proxy's rules afterwards: `nftables` or `iptables`
    #[arg(long, value_name = "RULES")]
    against: Option<String>,
    /// Further arguments for the siege; `-- --help` lists them
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    rest: Vec<String>,
}

pub(crate) fn main(args: &Args) -> Result<()> {
    let Args {
        minutes,
        against,
        rest,
    } = args;
    privilege::require("cargo xtask siege")?;
    machine::require(Purpose::Tests)?;
    setup::ensure(match against {
        Some(_) => setup::Needs::Bench,
        None => setup::Needs::Network,
    })?;
    process::step(
        "build the agent and the siege",
        workspace::cargo(&workspace::root()?)
            .args(["build", "--release"])
            .args(["--package", "shunt", "--package", "shunt-tests"])
            .args(["--bin", "shunt", "--bin", "siege"]),
    )?;

    let built = workspace::output("release")?;
    let mut siege = Command::new(built.join("siege"));
    siege
        .arg("--agent")
        .arg(built.join("shunt"))
        .args(["--minutes", &minutes.to_string()]);
    if let Some(rules) = against {
        siege.args(["--against", rules]);
    }
    siege.args(rest);
    privilege::exec(siege)
}
