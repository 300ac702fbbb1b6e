//! Dispatch of the subcommands.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use shunt_print::output::{causes, complain};

use crate::{
    arguments::ClusterArgs,
    commands::{
        conntrack::{self, ConntrackArgs},
        exit::NO_CLUSTER,
        lookup::{self, LookupArgs},
        monitor::{self, MonitorArgs},
        services::{self, ServicesArgs},
        status::{self, StatusArgs},
        steer::{self, DrainArgs, UndrainArgs, WeightArgs},
    },
    fleet::Fleet,
};

/// The agents of all nodes of a cluster, through its API server
///
/// It runs `shunt proxy` in each agent's pod. So it needs the rights to list nodes and pods, and to create and get
/// pods/exec where the agents are. A node that does not answer is a line with the reason. Exit status: 0; 1 if a node
/// does not answer, or by the command; 2 if the API server does not answer, or there is no agent.
#[derive(Debug, Parser)]
#[command(name = "kubectl-shunt", bin_name = "kubectl shunt", version)]
struct Cli {
    #[command(flatten)]
    cluster: ClusterArgs,

    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(StatusArgs),
    Services(ServicesArgs),
    Lookup(LookupArgs),
    Conntrack(ConntrackArgs),
    Monitor(MonitorArgs),
    Drain(DrainArgs),
    Undrain(UndrainArgs),
    Weight(WeightArgs),
}

/// Runs the subcommand that the command line names.
pub(crate) fn main() -> ExitCode {
    let Cli { cluster, command } = Cli::parse();
    run(&cluster, command).unwrap_or_else(|error| {
        complain(format_args!("error: {}", causes(&error)));
        ExitCode::from(NO_CLUSTER)
    })
}

fn run(cluster: &ClusterArgs, command: Command) -> Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let status = runtime.block_on(async {
        let fleet = Fleet::find(cluster).await?;
        match command {
            Command::Status(args) => status::run(&args, &fleet).await,
            Command::Services(args) => services::run(&args, &fleet).await,
            Command::Lookup(args) => lookup::run(&args, &fleet).await,
            Command::Conntrack(args) => conntrack::run(&args, &fleet).await,
            Command::Monitor(args) => monitor::run(&args, &fleet).await,
            Command::Drain(args) => steer::drain(&args, &fleet).await,
            Command::Undrain(args) => steer::undrain(&args, &fleet).await,
            Command::Weight(args) => steer::weight(&args, &fleet).await,
        }
    });
    // A lookup of a name may still be under way in a thread.
    runtime.shutdown_background();
    status
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_makes_sense() {
        Cli::command().debug_assert();
    }

    #[test]
    fn flags_of_the_cluster_stand_before_or_behind_a_command() {
        for line in [
            "x --context c --node a --node b status",
            "x status --node a --context c --node b",
        ] {
            let Cli { cluster, .. } = Cli::try_parse_from(line.split(' ')).unwrap();
            assert_eq!(cluster.context.as_deref(), Some("c"), "{line}");
            assert_eq!(cluster.node, ["a", "b"], "{line}");
            assert!(cluster.means("a") && !cluster.means("c"));
        }
    }
}
