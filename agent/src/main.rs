//! `shunt`: the agent and its tools.

#![forbid(unsafe_code)]

mod cli;
mod host;

fn main() -> std::process::ExitCode {
    cli::main()
}
