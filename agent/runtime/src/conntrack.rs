//! The connections, read beside the event loop: a reading takes milliseconds, in which events must
//! not wait.

use std::{fmt, thread::yield_now};

use shunt_api::view::{Connection, ConnectionFilter, ConnectionState, ProtocolNumber};
use shunt_datapath::{ConnectionList, Connections, ConntrackState, LiveConnection};
use tokio::task::spawn_blocking;

use crate::error::InspectError;

/// The connections, read piece by piece. A reader may take its time.
pub struct ConnectionPieces {
    list: ConnectionList,
    filter: ConnectionFilter,
}

impl fmt::Debug for ConnectionPieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ConnectionPieces").finish_non_exhaustive()
    }
}

impl ConnectionPieces {
    /// Selects the connections that the filter means.
    pub(super) fn of(connections: &Connections, filter: ConnectionFilter) -> Self {
        Self {
            list: connections.list(),
            filter,
        }
    }

    /// Returns some more connections, and the reader of the next; `None` at the end.
    ///
    /// # Errors
    ///
    /// If the kernel's clock cannot be read.
    pub async fn next(self) -> Result<Option<(Vec<Connection>, Self)>, InspectError> {
        let Self { mut list, filter } = self;
        let (piece, list) = spawn_blocking(move || (list.next_piece(), list)).await?;
        let Some(piece) = piece? else {
            return Ok(None);
        };
        let piece = piece.iter().map(connection);
        let piece = piece.filter(|connection| filter.takes(connection));
        Ok(Some((piece.collect(), Self { list, filter })))
    }
}

/// Forgets the connections that are meant, beside the event loop. Returns their number.
///
/// # Errors
///
/// If the kernel's clock cannot be read.
pub(super) async fn flush(
    connections: &Connections,
    filter: ConnectionFilter,
) -> Result<u64, InspectError> {
    let connections = connections.clone();
    let flushed = spawn_blocking(move || {
        connections.flush(|found| filter.takes(&connection(found)), yield_now)
    });
    Ok(flushed.await??)
}

fn connection(connection: &LiveConnection) -> Connection {
    let &LiveConnection {
        protocol,
        client,
        frontend,
        backend,
        state,
        idle,
        snat_source,
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
        snat_source: snat_source.map(Into::into),
    }
}
