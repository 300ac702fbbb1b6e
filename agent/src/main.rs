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
    Agent(commands::agent::AgentArgs),
    Render(commands::render::RenderArgs),
    Cleanup(commands::cleanup::CleanupArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Agent(args) => commands::agent::run(args),
        Command::Render(args) => commands::render::run(args),
        Command::Cleanup(args) => commands::cleanup::run(&args),
    };
    result.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}
