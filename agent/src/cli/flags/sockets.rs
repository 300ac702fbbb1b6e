//! The translation at the socket.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use shunt_datapath::{Families, SocketLb, SocketOptions};

use crate::cli::flags::switch::Switch;

/// Connections that are translated where they are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mode {
    /// None
    Off,
    /// Connections of processes of the node itself
    Host,
    /// Connections of pods too, which then cost no packet anything
    All,
}

/// Translation where a process opens a connection, before there is a packet.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Sockets")]
pub(crate) struct SocketLbArgs {
    /// Connections that are translated where they are made, at the socket: processes of the node itself are clients in
    /// no other way [default: host, where the kernel can: Linux 5.18]
    #[arg(long, value_name = "WHOSE", value_enum)]
    socket_lb: Option<Mode>,

    /// The directory of the cgroup (version 2) whose processes' sockets these are [default: the
    /// root of all cgroups, as it is mounted or, if it is not, mounted at /run/shunt/cgroup]
    #[arg(long, value_name = "PATH")]
    cgroup: Option<PathBuf>,

    /// Serve NodePorts at the node's loopback addresses, for its own processes, where no socket of the node's is. Ranges
    /// of --nodeport-addresses without a loopback address switch it off for their family
    #[arg(
        id = "iptables-localhost-nodeports",
        long,
        value_name = "BOOL",
        default_value_t = Switch::ON,
        hide_default_value = true
    )]
    pub(crate) localhost_node_ports: Switch,

    /// Refuse that a process of the node binds to a NodePort that is in use
    #[arg(long)]
    protect_node_ports: bool,

    /// Reset TCP connections of the node's processes when their endpoint is gone; without this they
    /// end when they find out. UDP sockets leave it in any case
    #[arg(long)]
    pub(crate) terminate_tcp: bool,
}

impl SocketLbArgs {
    /// Returns the settings of translation at the socket. If a flag requires it, or names a cgroup, the agent fails
    /// without it; otherwise the agent goes on. Loopback addresses of the families `local_node_ports` have NodePorts.
    pub(crate) fn sockets(self, local_node_ports: Families) -> SocketOptions {
        let Self {
            socket_lb,
            cgroup,
            localhost_node_ports: _,
            protect_node_ports,
            terminate_tcp,
        } = self;
        SocketOptions {
            mode: match socket_lb {
                Some(Mode::Off) => SocketLb::Off,
                Some(Mode::Host) | None => SocketLb::Host,
                Some(Mode::All) => SocketLb::All,
            },
            required: socket_lb.is_some() || cgroup.is_some(),
            cgroup,
            local_node_ports,
            protect_node_ports,
            terminate_tcp,
        }
    }
}
