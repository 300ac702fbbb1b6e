//! The siege: floods, resets, dead agents, interfaces and backends that come and go, all at once,
//! against honest clients that verify every byte. `cargo xtask siege` executes it.

#![forbid(unsafe_code)]

mod cpu;
mod disturbance;
mod field;
mod flood;
mod honest;
mod live;
mod report;
mod services;
mod siege;
mod translator;

use std::{path::PathBuf, process::ExitCode, time::Duration};

use anyhow::{Context as _, Result, bail};
use clap::{Parser, ValueEnum};
use shunt_tests::{interrupt, is_root};

use self::{
    field::Family,
    report::Report,
    siege::{Plan, besiege},
    translator::Kind,
};

/// Lays siege to Shunt in network namespaces of its own. The exit status is 1 if an honest client
/// was not served.
#[derive(Debug, Parser)]
#[command(name = "siege", version)]
struct Options {
    /// The agent's binary
    #[arg(long, value_name = "PATH")]
    agent: PathBuf,
    /// Duration in minutes
    #[arg(long, value_name = "N", default_value_t = 5)]
    minutes: u64,
    /// The same in seconds, instead
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Packets a second of all floods together, if the machine can make so many
    #[arg(long, value_name = "N", default_value_t = 100_000)]
    rate: u32,
    /// Floods and clients of IPv6, instead of IPv4
    #[arg(long, conflicts_with = "against")]
    ipv6: bool,
    /// The same siege on kube-proxy's rules, afterwards
    #[arg(long, value_enum, value_name = "RULES")]
    against: Option<Rules>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Show the agents' logs at the end
    #[arg(long)]
    log: bool,
    /// Further arguments for `shunt agent`, such as `-- --max-conntrack 65536`
    #[arg(last = true)]
    flags: Vec<String>,
}

/// The modes of kube-proxy.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Rules {
    Nftables,
    Iptables,
}

fn main() -> ExitCode {
    match run(Options::parse()) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("siege: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Returns whether every honest client of Shunt was served.
fn run(options: Options) -> Result<bool> {
    let Options {
        agent,
        minutes,
        seconds,
        rate,
        ipv6,
        against,
        seed,
        log,
        flags,
    } = options;
    if !is_root() {
        bail!("network namespaces need root: run it as root or with sudo");
    }
    interrupt::listen()?;
    let binary = agent.canonicalize().with_context(|| {
        let agent = agent.display();
        format!("no agent at {agent}: build it with `cargo xtask build`")
    })?;
    let plan = Plan {
        time: Duration::from_secs(seconds.unwrap_or(minutes.saturating_mul(60))),
        rate,
        family: if ipv6 { Family::V6 } else { Family::V4 },
        seed,
    };
    let besieged = besiege(&plan, Kind::Shunt { binary, flags, log })?;
    println!("\n{besieged}");
    let held = besieged.failures() == 0;
    if let Some(rules) = against {
        let kind = match rules {
            Rules::Nftables => Kind::Nftables,
            Rules::Iptables => Kind::Iptables,
        };
        let other = besiege(&plan, kind)?;
        println!("\n{other}\n{}", Report::compared(&besieged, &other));
    }
    Ok(held)
}
