//! `kubectl shunt`: the agents of all nodes of a cluster.
//!
//! It reaches each agent's socket through the API server, by running `shunt proxy` in the agent's pod, and has what the
//! caller's kubeconfig gives: its rights, and no others.

#![forbid(unsafe_code)]

mod arguments;
mod cluster;
mod commands;
mod fleet;
mod node_status;
mod place;
mod print;
mod process;
mod tunnel;

fn main() -> std::process::ExitCode {
    commands::main()
}
