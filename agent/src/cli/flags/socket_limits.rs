//! The limits of the agent's socket.

use anyhow::{Result, ensure};
use clap::Args;
use shunt_serve::CallLimits;

/// The limits of the agent's socket.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Limits of the socket")]
pub(crate) struct SocketLimitArgs {
    /// Maximum number of connections at the agent's socket, more than those of its streams. If all are taken, one without a call
    /// gives way
    #[arg(long, value_name = "N", default_value_t = 2048)]
    max_socket_connections: u32,

    /// Maximum number of calls at the agent's socket that last as long as their client wants, as those of `shunt watch`; the
    /// others have room of their own
    #[arg(long, value_name = "N", default_value_t = 1024,
          value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    max_socket_streams: u32,

    /// Maximum size of what clients of the agent's socket have not read, in MiB: if others need the room, a call ends whose
    /// client has read nothing for 5 s
    #[arg(long, value_name = "MIB", default_value_t = 8,
          value_parser = clap::value_parser!(u32).range(1..))]
    max_socket_unread: u32,
}

impl SocketLimitArgs {
    /// Returns the limits.
    ///
    /// # Errors
    ///
    /// Streams could take all connections.
    pub(crate) fn limits(self) -> Result<CallLimits> {
        let Self {
            max_socket_connections,
            max_socket_streams,
            max_socket_unread,
        } = self;
        let limits = CallLimits::new(
            max_socket_connections,
            max_socket_streams,
            max_socket_unread,
        );
        let least = CallLimits::least_connections(limits.streams);
        ensure!(
            limits.connections >= least,
            "--max-socket-connections {max_socket_connections}: {max_socket_streams} streams \
             (--max-socket-streams) need at least {least}, so that other calls find a connection"
        );
        Ok(limits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_leave_connections_to_other_calls() {
        for (max_socket_connections, max_socket_streams, is_enough) in [
            (2048, 1024, true),
            (1024, 1024, false),
            (600, 1, true),
            (512, 1, false),
        ] {
            let args = SocketLimitArgs {
                max_socket_connections,
                max_socket_streams,
                max_socket_unread: 8,
            };
            assert_eq!(
                args.limits().is_ok(),
                is_enough,
                "{max_socket_connections} {max_socket_streams}"
            );
        }
    }
}
