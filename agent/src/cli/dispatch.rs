//! Which subcommand runs.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cli::{
    agent::{self, AgentArgs},
    apply::{self, ApplyArgs},
    cleanup::{self, CleanupArgs},
    conntrack::{self, ConntrackArgs},
    controller::{self, ControllerArgs},
    init::{self, InitArgs},
    lookup::{self, LookupArgs},
    output::complain,
    render::{self, RenderArgs},
    services::{self, ServicesArgs},
    status::{self, StatusArgs},
};

/// In-kernel translation of Kubernetes services.
#[derive(Debug, Parser)]
#[command(name = "shunt", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<AgentArgs>),
    Controller(ControllerArgs),
    Apply(ApplyArgs),
    Services(ServicesArgs),
    Status(StatusArgs),
    Conntrack(ConntrackArgs),
    Lookup(LookupArgs),
    Render(RenderArgs),
    Init(InitArgs),
    Cleanup(CleanupArgs),
}

/// Runs the subcommand that the command line names.
pub(crate) fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(args) => agent::run(*args),
        Command::Controller(args) => controller::run(args),
        Command::Apply(args) => apply::run(args),
        Command::Services(args) => services::run(&args),
        Command::Status(args) => status::run(&args),
        Command::Conntrack(args) => conntrack::run(&args),
        Command::Lookup(args) => lookup::run(&args),
        Command::Render(args) => render::run(args),
        Command::Init(args) => init::run(&args),
        Command::Cleanup(args) => cleanup::run(&args),
    };
    result.unwrap_or_else(|error| {
        // What the kernel's verifier says of a program has lines. None of them can be taken for
        // the beginning of a message.
        for (number, line) in format!("{error:#}").lines().enumerate() {
            let start = if number == 0 { "error: " } else { "    " };
            complain(format_args!("{start}{line}"));
        }
        ExitCode::FAILURE
    })
}
