//! Limits of a gRPC server.

use std::time::Duration;

use shunt_http::{Limits, Streams};

/// Number of calls at once that are answered and end: those of commands. They have room of their own.
pub(super) const ANSWERED: usize = 512;

/// Maximum number of bytes of a stream that wait for the socket, beside one frame.
const SEND_BUFFER: usize = 16 << 10;

/// Limits of a gRPC server.
#[derive(Debug, Clone, Copy)]
pub struct CallLimits {
    /// Maximum number of connections.
    pub connections: usize,
    /// Maximum number of calls at once that last as long as their client wants.
    pub streams: usize,
    /// Maximum number of bytes of answers that clients have not taken, beside one message of each call.
    pub bytes: usize,
}

impl CallLimits {
    /// So many connections and streams, and so many MiB.
    pub const fn new(connections: u32, streams: u32, unread: u32) -> Self {
        Self {
            connections: connections as usize,
            streams: streams as usize,
            bytes: (unread as usize) << 20,
        }
    }

    /// The smallest number of connections with which clients whose calls are all streams do not take the places of others, if
    /// each stream has a connection and all clients are one user.
    pub const fn least_connections(streams: usize) -> usize {
        // A user has seven eighths of the places.
        (streams + ANSWERED) * 8 / 7 + 8
    }

    /// The limits of connections.
    pub(super) const fn of_connections(self) -> Limits {
        Limits {
            connections: self.connections,
            patience: Limits::SHORT.patience,
            // A stream may last for ever.
            lifetime: None,
        }
    }
}

/// The streams of one connection.
pub(super) const fn of_streams(keep_alive: Option<Duration>) -> Streams {
    Streams {
        number: 1024,
        send_buffer: SEND_BUFFER,
        keep_alive,
    }
}
