//! Arguments that all commands have.

use std::{path::PathBuf, time::Duration};

use clap::Args;
use shunt_print::duration::Seconds;

/// Place of the agents, and the nodes that are meant.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Cluster")]
pub(crate) struct ClusterArgs {
    /// The context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) context: Option<String>,

    /// The kubeconfig [default: $KUBECONFIG, or ~/.kube/config]
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) kubeconfig: Option<PathBuf>,

    /// The namespace of the agents' pods
    #[arg(
        long,
        global = true,
        value_name = "NAMESPACE",
        default_value = "kube-system"
    )]
    pub(crate) namespace: String,

    /// This node alone; may be given several times [default: all nodes]
    #[arg(long, global = true, value_name = "NAME")]
    pub(crate) node: Vec<String>,

    /// The path of the agents' sockets, if they have another than the default
    #[arg(long, global = true, value_name = "PATH")]
    pub(crate) socket: Option<String>,

    /// The time that each node has for its answer
    #[arg(long, global = true, value_name = "TIME", default_value = "15s")]
    timeout: Seconds,
}

impl ClusterArgs {
    /// Returns the time that each node has for its answer.
    pub(crate) fn timeout(&self) -> Duration {
        let Seconds(seconds) = self.timeout;
        Duration::from_secs(seconds.max(1).into())
    }

    /// Returns whether the command means the node of this name.
    pub(crate) fn means(&self, node: &str) -> bool {
        self.node.is_empty() || self.node.iter().any(|name| name == node)
    }
}
