//! The connections, read beside the event loop: a reading takes milliseconds, in which events must
//! not wait.

use std::fmt;

use shunt_api::view::{Connection, ConnectionState, ProtocolNumber};
use shunt_datapath::{ConnectionList, Connections, ConntrackState, LiveConnection};
use tokio::task::spawn_blocking;

use crate::runtime::error::InspectError;

/// The connections, read piece by piece. Whoever reads may take their time.
pub struct ConnectionPieces(ConnectionList);

impl fmt::Debug for ConnectionPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPieces").finish_non_exhaustive()
    }
}

impl ConnectionPieces {
    pub(super) fn of(connections: &Connections) -> Self {
        Self(connections.list())
    }

    /// Some more connections, and what gives the next; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub async fn next(self) -> Result<Option<(Vec<Connection>, Self)>, InspectError> {
        let Self(mut list) = self;
        let (piece, list) = spawn_blocking(move || (list.next_piece(), list)).await?;
        Ok(piece?.map(|piece| (piece.iter().map(connection).collect(), Self(list))))
    }
}

fn connection(connection: &LiveConnection) -> Connection {
    let &LiveConnection {
        protocol,
        client,
        frontend,
        backend,
        state,
        idle,
    } = connection;
    Connection {
        protocol: ProtocolNumber(protocol),
        client: client.into(),
        frontend: frontend.into(),
        backend: backend.into(),
        state: match state {
            ConntrackState::SynSent => ConnectionState::SynSent,
            ConntrackState::SynReceived => ConnectionState::SynRecv,
            ConntrackState::New => ConnectionState::New,
            ConntrackState::Established => ConnectionState::Established,
            ConntrackState::Closing => ConnectionState::Closing,
            ConntrackState::Closed => ConnectionState::Closed,
            ConntrackState::TimeWait => ConnectionState::TimeWait,
            ConntrackState::Unreplied => ConnectionState::Unreplied,
            ConntrackState::Replied => ConnectionState::Replied,
            ConntrackState::Assured => ConnectionState::Assured,
        },
        idle_seconds: idle,
    }
}
