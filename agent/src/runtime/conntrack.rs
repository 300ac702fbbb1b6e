//! The connections, read beside the event loop: a reading takes milliseconds, in which events must
//! not wait.

use std::fmt;

use shunt_api::view::{Connection, ConnectionState, ProtocolNumber};
use shunt_datapath::{ConnectionList, Connections, ConntrackState, LiveConnection, TableUse};
use tokio::task::spawn_blocking;

use crate::runtime::error::InspectError;

/// How full the conntrack tables are.
#[derive(Debug)]
pub(super) struct ConntrackUse {
    pub(super) tables: [TableUse; 2],
    /// Connections that were removed before their time.
    pub(super) early_drop: u64,
}

impl ConntrackUse {
    /// Reads all of the tables.
    pub(super) async fn read(connections: &Connections) -> Result<Self, InspectError> {
        let (early_drop, connections) = (connections.early_drops(), connections.clone());
        let tables = spawn_blocking(move || connections.table_use()).await??;
        Ok(Self { tables, early_drop })
    }
}

/// The connections, read piece by piece. Between two pieces nothing is held in the kernel.
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
    /// If the kernel refuses to read.
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
            ConntrackState::New => ConnectionState::New,
            ConntrackState::Established => ConnectionState::Established,
            ConntrackState::Closing => ConnectionState::Closing,
            ConntrackState::Closed => ConnectionState::Closed,
            ConntrackState::TimeWait => ConnectionState::TimeWait,
            ConntrackState::Unreplied => ConnectionState::Unreplied,
            ConntrackState::Assured => ConnectionState::Assured,
        },
        idle_seconds: idle,
    }
}
