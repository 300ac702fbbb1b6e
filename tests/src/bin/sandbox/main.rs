//! Shunt's main job, end to end: builds a small cluster of network namespaces, starts the real agent
//! on a file of renderer events, drives real TCP and UDP traffic at every frontend, changes the
//! backends under traffic, rolls a canary out, and shows who answered. `cargo xtask run` executes it.

#![forbid(unsafe_code)]

mod canary;
mod catalog;
mod changes;
mod cluster;
mod event;
mod kept;
mod model;
mod progress;
mod report;
mod steady;
mod trickle;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::Parser;
use shunt_tests::{interrupt, is_root};

use self::{cluster::Cluster, event::read_events, progress::Progress, report::Report};

/// Tries Shunt in a sandbox of network namespaces: this node, which is a client too, with two backend
/// pods and a client pod, a second node with a backend pod, and a client outside.
#[derive(Debug, Parser)]
#[command(name = "sandbox", version)]
struct Options {
    /// The agent's binary.
    #[arg(long, value_name = "PATH")]
    agent: PathBuf,
    /// The renderer events to start with, one JSON object a line.
    #[arg(
        long,
        value_name = "FILE",
        default_value = "docs/example-events.jsonl",
        overrides_with = "events"
    )]
    events: PathBuf,
    /// Follow a real Consul with this binary, in place of the events.
    #[arg(long, value_name = "PATH")]
    consul: Option<PathBuf>,
    /// Connections from each client to each frontend.
    #[arg(long, value_name = "N", default_value_t = 300)]
    connections: u32,
    /// Seconds of traffic after each change.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seconds: u64,
    /// Megabytes of each bulk transfer; 0 leaves them out.
    #[arg(long, value_name = "MB", default_value_t = 256)]
    bulk: u64,
    /// Leave the sandbox up until Ctrl-C, and print what to type to look around.
    #[arg(long)]
    keep: bool,
    /// Have the agent serve its page at this port of 127.0.0.1, with traffic to look at while the sandbox
    /// stays up.
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "9254")]
    ui: Option<u16>,
    /// In place of waiting for Ctrl-C, run this script of node's with the page's address.
    #[arg(long, value_name = "SCRIPT", requires_all = ["keep", "ui"])]
    visitor: Option<PathBuf>,
    /// Show the agent's log at the end, as is done anyway when something is wrong.
    #[arg(long)]
    log: bool,
}

fn main() -> ExitCode {
    match try_in_sandbox(&Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("sandbox: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every connection was answered by the events.
fn try_in_sandbox(options: &Options) -> Result<bool> {
    if !is_root() {
        bail!("network namespaces need root: run it as root or with sudo");
    }
    interrupt::listen()?;
    let agent = options.agent.canonicalize().with_context(|| {
        format!(
            "no agent at {}: build it with `cargo xtask build`",
            options.agent.display()
        )
    })?;
    if let Some(consul) = &options.consul {
        return catalog::demonstrate(&agent, consul, options.connections);
    }
    let events = read_events(&options.events)?;

    let progress = Progress::start();
    let mut cluster = Cluster::build(&progress, &agent, &events, options.ui)?;
    let mut report = Report::default();
    let result = run_stages(options, &progress, &mut cluster, &mut report);
    let right = result.is_ok() && report.problems().is_empty();
    if options.log || (!right && !interrupt::is_requested()) {
        println!("\nThe agent's log:\n{}", cluster.agent().log());
    }
    result?;

    println!("\n{report}");
    for problem in report.problems() {
        println!("WRONG: {problem}");
    }
    if right {
        println!(
            "Every connection was answered by a backend of its frontend ({}).",
            progress.took()
        );
    }
    if let Some(script) = &options.visitor {
        return Ok(kept::visit(&cluster, script)? && right);
    }
    if options.keep {
        kept::wait(&cluster);
    }
    Ok(right)
}

fn run_stages(
    options: &Options,
    progress: &Progress,
    cluster: &mut Cluster,
    report: &mut Report,
) -> Result<()> {
    let &Options {
        agent: _,
        events: _,
        consul: _,
        connections,
        seconds,
        bulk,
        keep: _,
        ui: _,
        visitor: _,
        log: _,
    } = options;
    steady::ask_every_frontend(progress, cluster, connections, report)?;
    if bulk > 0 {
        steady::transfer(progress, cluster, bulk * 1_000_000, report)?;
    }
    let pause = Duration::from_secs(seconds);
    changes::change_under_traffic(progress, cluster, pause, report)?;
    canary::roll_out(progress, cluster, pause, report)
}
