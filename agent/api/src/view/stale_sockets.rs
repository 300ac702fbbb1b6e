//! Sockets without a backend, and their fate.

use serde::Serialize;

use crate::proto;

/// The sockets of the node's processes that had no backend. The order of the fields is the order
/// in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct StaleSockets {
    /// Number of UDP sockets that were destroyed since the agent's start.
    pub destroyed_udp: u64,
    /// Number of TCP sockets that were destroyed since then.
    pub destroyed_tcp: u64,
    /// Number of UDP sockets that were connected to a backend anew since the agent's start.
    pub moved_udp: u64,
    /// Why they stay, if they do.
    pub trouble: Option<String>,
}

impl From<StaleSockets> for proto::StaleSockets {
    fn from(sockets: StaleSockets) -> Self {
        let StaleSockets {
            destroyed_udp,
            destroyed_tcp,
            moved_udp,
            trouble,
        } = sockets;
        Self {
            destroyed_udp,
            destroyed_tcp,
            moved_udp,
            trouble,
        }
    }
}

impl From<proto::StaleSockets> for StaleSockets {
    fn from(message: proto::StaleSockets) -> Self {
        let proto::StaleSockets {
            destroyed_udp,
            destroyed_tcp,
            moved_udp,
            trouble,
        } = message;
        Self {
            destroyed_udp,
            destroyed_tcp,
            moved_udp,
            trouble,
        }
    }
}
