//! `shunt`: the agent and its tools.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod commands;

/// In-kernel translation of Kubernetes services.
#[derive(Debug, Parser)]
#[command(name = "shunt", version)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Agent(Box<commands::agent::AgentArgs>),
    Apply(commands::apply::ApplyArgs),
    Services(commands::services::ServicesArgs),
    Status(commands::status::StatusArgs),
    Conntrack(commands::conntrack::ConntrackArgs),
    Lookup(commands::lookup::LookupArgs),
    Render(commands::render::RenderArgs),
    Cleanup(commands::cleanup::CleanupArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(args) => commands::agent::run(*args),
        Command::Apply(args) => commands::apply::run(args),
        Command::Services(args) => commands::services::run(&args),
        Command::Status(args) => commands::status::run(&args),
        Command::Conntrack(args) => commands::conntrack::run(&args),
        Command::Lookup(args) => commands::lookup::run(&args),
        Command::Render(args) => commands::render::run(args),
        Command::Cleanup(args) => commands::cleanup::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
