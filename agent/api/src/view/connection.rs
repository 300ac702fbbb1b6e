//! Connections.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::Serialize;

use crate::{
    proto::{self, connection::State},
    view::{
        error::{Malformed, address, port},
        protocol::ProtocolNumber,
    },
};

/// A connection that is remembered. The order of the fields is the order in JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Connection {
    /// Its protocol.
    pub protocol: ProtocolNumber,
    /// Who opened it.
    pub client: End,
    /// What the client connected to.
    pub frontend: End,
    /// Who serves it.
    pub backend: End,
    /// Where it is in its life.
    pub state: ConnectionState,
    /// For how many seconds neither side has sent a packet.
    pub idle_seconds: u32,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Its address.
    pub ip: IpAddr,
    /// Its port in host byte order.
    pub port: u16,
}

/// Where a connection is in its life, in the words of Linux's own connection tracking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum ConnectionState {
    /// TCP, and the client has sent a SYN.
    SynSent,
    /// TCP, and the backend has answered it.
    SynRecv,
    /// TCP that began without a SYN, and the backend has not answered; SCTP without a COOKIE ACK.
    New,
    /// TCP or SCTP, and both have shown that they hear each other.
    Established,
    /// TCP, and one side has ended; SCTP, and one side has acknowledged the shutdown.
    Closing,
    /// TCP, and one side has reset; SCTP, and both sides have ended or one has aborted.
    Closed,
    /// TCP, and both sides have ended.
    TimeWait,
    /// UDP, and the backend has not answered.
    Unreplied,
    /// UDP, and the backend has answered.
    Replied,
    /// UDP, and both have spoken for some time.
    Assured,
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::SynSent => "SYN_SENT",
            Self::SynRecv => "SYN_RECV",
            Self::New => "NEW",
            Self::Established => "ESTABLISHED",
            Self::Closing => "CLOSING",
            Self::Closed => "CLOSED",
            Self::TimeWait => "TIME_WAIT",
            Self::Unreplied => "UNREPLIED",
            Self::Replied => "REPLIED",
            Self::Assured => "ASSURED",
        })
    }
}

impl From<SocketAddr> for End {
    fn from(address: SocketAddr) -> Self {
        Self {
            ip: address.ip(),
            port: address.port(),
        }
    }
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

impl From<End> for proto::Endpoint {
    fn from(end: End) -> Self {
        let End { ip, port } = end;
        Self {
            ip: ip.to_string(),
            port: port.into(),
        }
    }
}

impl TryFrom<Option<proto::Endpoint>> for End {
    type Error = Malformed;

    fn try_from(end: Option<proto::Endpoint>) -> Result<Self, Malformed> {
        let proto::Endpoint { ip, port: number } =
            end.ok_or(Malformed::Missing("end of a connection"))?;
        Ok(Self {
            ip: address(&ip)?,
            port: port(number)?,
        })
    }
}

impl From<Connection> for proto::Connection {
    fn from(connection: Connection) -> Self {
        let Connection {
            protocol: ProtocolNumber(protocol),
            client,
            frontend,
            backend,
            state,
            idle_seconds,
        } = connection;
        let state = match state {
            ConnectionState::SynSent => State::SynSent,
            ConnectionState::SynRecv => State::SynRecv,
            ConnectionState::New => State::New,
            ConnectionState::Established => State::Established,
            ConnectionState::Closing => State::Closing,
            ConnectionState::Closed => State::Closed,
            ConnectionState::TimeWait => State::TimeWait,
            ConnectionState::Unreplied => State::Unreplied,
            ConnectionState::Replied => State::Replied,
            ConnectionState::Assured => State::Assured,
        };
        Self {
            protocol: protocol.into(),
            client: Some(client.into()),
            frontend: Some(frontend.into()),
            backend: Some(backend.into()),
            state: state.into(),
            idle_seconds,
        }
    }
}

impl TryFrom<proto::Connection> for Connection {
    type Error = Malformed;

    fn try_from(connection: proto::Connection) -> Result<Self, Malformed> {
        let proto::Connection {
            protocol,
            client,
            frontend,
            backend,
            state,
            idle_seconds,
        } = connection;
        Ok(Self {
            protocol: ProtocolNumber(
                u8::try_from(protocol).map_err(|_| Malformed::Value(protocol, "protocol"))?,
            ),
            client: client.try_into()?,
            frontend: frontend.try_into()?,
            backend: backend.try_into()?,
            state: match State::try_from(state) {
                Ok(State::SynSent) => ConnectionState::SynSent,
                Ok(State::SynRecv) => ConnectionState::SynRecv,
                Ok(State::New) => ConnectionState::New,
                Ok(State::Established) => ConnectionState::Established,
                Ok(State::Closing) => ConnectionState::Closing,
                Ok(State::Closed) => ConnectionState::Closed,
                Ok(State::TimeWait) => ConnectionState::TimeWait,
                Ok(State::Unreplied) => ConnectionState::Unreplied,
                Ok(State::Replied) => ConnectionState::Replied,
                Ok(State::Assured) => ConnectionState::Assured,
                Ok(State::Unspecified) | Err(_) => {
                    return Err(Malformed::Value(state, "state of a connection"));
                }
            },
            idle_seconds,
        })
    }
}
