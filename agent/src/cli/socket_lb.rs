//! The log of translation at the socket.

use shunt_datapath::{SocketLb, SocketStatus};
use tracing::{info, warn};

/// Logs whose connections are translated at the socket.
pub(crate) fn log_socket_lb(sockets: &SocketStatus) {
    let SocketStatus {
        mode,
        cgroup,
        is_root,
        hooks,
        problem,
    } = sockets;
    if let Some(problem) = problem {
        warn!(
            "connections are not translated at the socket, so processes of this node are no clients \
             of services: {problem}"
        );
    }
    let whose = match mode {
        SocketLb::Off => {
            info!("processes of this node are no clients of services: --socket-lb is off");
            return;
        }
        SocketLb::Host => "processes of this node",
        SocketLb::All => "processes of this node and of its pods",
    };
    let (Some(cgroup), None) = (cgroup, problem) else {
        return;
    };
    let cgroup = cgroup.display();
    info!(
        "connections of {whose} are translated at the socket, by {} of {cgroup}",
        hooks.join(", ")
    );
    if !is_root {
        warn!(
            "{cgroup} is not the root of all cgroups: sockets of processes outside it are not \
             translated. In a container, share the host's process ids (hostPID), or mount the host's \
             /sys/fs/cgroup and name it with --cgroup"
        );
    }
}
