//! `cargo xtask`: what the repository can do with itself, one module a subcommand.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

mod bench;
mod build;
mod cache;
mod deny;
mod dist;
mod fuzz;
mod image;
mod kernel;
mod link;
mod load;
mod machine;
mod pictures;
mod privilege;
mod process;
mod revision;
mod run;
mod seed;
mod setup;
mod siege;
mod skips;
mod strip;
mod test;
mod test_result;
mod workspace;

#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", about, version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

/// Builds, runs and tests Shunt; every command sets up what it needs by itself.
#[derive(Debug, Subcommand)]
enum Command {
    /// Finds or installs what the other commands need
    Setup(setup::Args),
    /// Builds the agent
    Build(build::Args),
    /// Makes what is installed on a host: an archive, and a package of Debian's
    Dist(dist::Args),
    /// Builds a container image of the agent
    Image(image::Args),
    /// Runs the agent in a sandbox of network namespaces, with real traffic (needs root)
    Run(run::Args),
    /// Runs the agent on this host (needs root)
    Load(load::Args),
    /// Runs the tests
    Test(test::Args),
    /// Measures, and compares with kube-proxy's rules (needs root)
    Bench(bench::Args),
    /// Besieges the agent in network namespaces: floods and failures against honest clients (needs
    /// root)
    Siege(siege::Args),
    /// Runs the fuzz tests for longer
    Fuzz(fuzz::Args),
    /// Makes the pictures in the documents anew, from real agents (needs root)
    Pictures,
    /// Tries what this machine has to be able to do
    #[command(hide = true)]
    CheckMachine(machine::Args),
    /// Checks the licences, sources and versions of the dependencies
    Deny,
}

fn main() -> ExitCode {
    match privilege::leave_sudo().and_then(|()| dispatch(Cli::parse().command)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            // One sentence, without the backtrace that returning the error would print.
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(command: Command) -> Result<()> {
    match command {
        Command::Setup(args) => setup::main(&args),
        Command::Build(args) => build::main(&args),
        Command::Dist(args) => dist::main(&args),
        Command::Image(args) => image::main(&args),
        Command::Run(args) => run::main(&args),
        Command::Load(args) => load::main(&args),
        Command::Pictures => pictures::main(),
        Command::Test(args) => test::main(&args),
        Command::Bench(args) => bench::main(&args),
        Command::Siege(args) => siege::main(&args),
        Command::Fuzz(args) => fuzz::main(&args),
        Command::CheckMachine(args) => machine::main(&args),
        Command::Deny => deny::main(),
    }
}
