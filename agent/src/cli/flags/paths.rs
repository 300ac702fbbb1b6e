//! The paths of the agent.

use std::path::PathBuf;

use clap::Args;

/// Path of the pinned datapath.
#[derive(Debug, Clone, Args)]
pub(crate) struct PinArgs {
    /// Directory where the kernel keeps tables, programs and links, on a bpf file system; one agent each
    #[arg(long, value_name = "DIR", default_value = "/sys/fs/bpf/shunt")]
    pub(crate) pin_dir: PathBuf,
}

/// Path of the agent's socket.
#[derive(Debug, Clone, Args)]
pub(crate) struct SocketArgs {
    /// The agent's Unix socket, for events and queries
    #[arg(long, value_name = "PATH", default_value = "/run/shunt/shunt.sock")]
    pub(crate) socket: PathBuf,
}
