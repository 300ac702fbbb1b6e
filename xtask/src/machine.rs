//! A check of the machine before a build for it.

use std::{env, fmt::Write as _, process::Command, time::Instant};

use anyhow::{Result, bail};
use shunt_machine::{Facts, Purpose};

use crate::{privilege, process, workspace};

/// The command that a user's command calls through `sudo`.
const COMMAND: &str = "check-machine";

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// For tests and measurements, and not for the demo
    #[arg(long)]
    tests: bool,
}

/// Tries the abilities that the machine needs, as root.
///
/// # Errors
///
/// If some of them do not work: a sentence each, with a remedy.
pub(crate) fn require(purpose: Purpose) -> Result<()> {
    if workspace::is_root() {
        return look(purpose);
    }
    let mut command = Command::new(env::current_exe()?);
    command
        .arg(COMMAND)
        .args((purpose == Purpose::Tests).then_some("--tests"));
    process::run(&mut privilege::as_root(command))
}

/// `cargo xtask check-machine`.
pub(crate) fn main(args: &Args) -> Result<()> {
    let &Args { tests } = args;
    look(if tests { Purpose::Tests } else { Purpose::Demo })
}

fn look(purpose: Purpose) -> Result<()> {
    let start = Instant::now();
    let output = workspace::output("debug")?;
    let facts = Facts::gather(&output);
    let problems = facts.problems(purpose, output.join("shunt").exists());
    if !problems.is_empty() {
        let mut text = String::from("this machine cannot do what is needed:");
        for problem in problems {
            write!(text, "\n  - {problem}")?;
        }
        bail!(text);
    }
    let families = if facts.ipv6 {
        "IPv4 and IPv6"
    } else {
        "IPv4 alone, since IPv6 is off"
    };
    eprintln!(
        "machine: Linux {}, {families}: looked at in {:.1} s",
        facts.release,
        start.elapsed().as_secs_f64()
    );
    Ok(())
}
