//! The options for translation at the socket.

use std::path::PathBuf;

use crate::maps::families::Families;

/// Connections that are translated where they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SocketLb {
    /// None: no program is attached to a cgroup.
    #[default]
    Off,
    /// Connections of processes in the agent's own network namespace, the node's.
    Host,
    /// Connections of pods too.
    All,
}

/// Options for translation at the socket.
#[derive(Debug, Clone, Default)]
pub struct SocketOptions {
    /// For whom.
    pub mode: SocketLb,
    /// True if it is an error, and not only shown, if the kernel cannot.
    pub required: bool,
    /// The directory of the cgroup (version 2) whose processes it is for; `None`: the root of all.
    pub cgroup: Option<PathBuf>,
    /// The families whose loopback addresses have NodePorts, for the node's own processes.
    pub local_node_ports: Families,
    /// True if processes of the node may not bind to a NodePort that is in use.
    pub protect_node_ports: bool,
    /// True if TCP connections of the node's processes are reset when their endpoint is gone.
    pub terminate_tcp: bool,
}
