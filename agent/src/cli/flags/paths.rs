//! Where the agent is found.

use std::path::PathBuf;

use clap::Args;

/// Where the datapath is pinned.
#[derive(Debug, Clone, Args)]
pub(crate) struct PinArgs {
    /// Where the kernel keeps tables, programs and links, on a bpf file system; one agent each
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/shunt")]
    pub(crate) pin_dir: PathBuf,
}

/// Where the agent is asked.
#[derive(Debug, Clone, Args)]
pub(crate) struct SocketArgs {
    /// The agent's Unix socket, where it takes events and questions
    #[arg(long, value_name = "PATH", default_value = "/run/shunt/shunt.sock")]
    pub(crate) socket: PathBuf,
}
