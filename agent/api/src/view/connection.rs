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
    /// The client that opened it.
    pub client: End,
    /// The frontend that the client connected to.
    pub frontend: End,
    /// The backend that serves it.
    pub backend: End,
    /// State of the connection.
    pub state: ConnectionState,
    /// For how many seconds neither side has sent a packet.
    pub idle_seconds: u32,
    /// From where its packets go on to the backend, if not from the client's own address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snat_source: Option<End>,
}

/// One end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct End {
    /// Its address.
    pub ip: IpAddr,
    /// Its port in host byte order.
    pub port: u16,
}

/// State of a connection, in the words of Linux's own connection tracking.
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

impl ConnectionState {
    /// As it is shown: `ESTABLISHED`.
    pub const fn name(self) -> &'static str {
        match self {
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
        }
    }
}

impl fmt::Display for ConnectionState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
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
            snat_source,
        } = connection;
        let state = State::from(state);
        Self {
            protocol: protocol.into(),
            client: Some(client.into()),
            frontend: Some(frontend.into()),
            backend: Some(backend.into()),
            state: state.into(),
            idle_seconds,
            snat_source: snat_source.map(Into::into),
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
            snat_source,
        } = connection;
        Ok(Self {
            protocol: ProtocolNumber(
                u8::try_from(protocol).map_err(|_| Malformed::Value(protocol, "protocol"))?,
            ),
            client: client.try_into()?,
            frontend: frontend.try_into()?,
            backend: backend.try_into()?,
            state: ConnectionState::of_message(state)?,
            idle_seconds,
            snat_source: match snat_source {
                None => None,
                source => Some(source.try_into()?),
            },
        })
    }
}

impl ConnectionState {
    /// Every state.
    pub const ALL: [Self; 10] = [
        Self::SynSent,
        Self::SynRecv,
        Self::New,
        Self::Established,
        Self::Closing,
        Self::Closed,
        Self::TimeWait,
        Self::Unreplied,
        Self::Replied,
        Self::Assured,
    ];

    /// That of its number in a message.
    ///
    /// # Errors
    ///
    /// There is none of this number.
    pub fn of_message(number: i32) -> Result<Self, Malformed> {
        match State::try_from(number) {
            Ok(State::SynSent) => Ok(Self::SynSent),
            Ok(State::SynRecv) => Ok(Self::SynRecv),
            Ok(State::New) => Ok(Self::New),
            Ok(State::Established) => Ok(Self::Established),
            Ok(State::Closing) => Ok(Self::Closing),
            Ok(State::Closed) => Ok(Self::Closed),
            Ok(State::TimeWait) => Ok(Self::TimeWait),
            Ok(State::Unreplied) => Ok(Self::Unreplied),
            Ok(State::Replied) => Ok(Self::Replied),
            Ok(State::Assured) => Ok(Self::Assured),
            Ok(State::Unspecified) | Err(_) => {
                Err(Malformed::Value(number, "state of a connection"))
            }
        }
    }
}

impl From<ConnectionState> for State {
    fn from(state: ConnectionState) -> Self {
        match state {
            ConnectionState::SynSent => Self::SynSent,
            ConnectionState::SynRecv => Self::SynRecv,
            ConnectionState::New => Self::New,
            ConnectionState::Established => Self::Established,
            ConnectionState::Closing => Self::Closing,
            ConnectionState::Closed => Self::Closed,
            ConnectionState::TimeWait => Self::TimeWait,
            ConnectionState::Unreplied => Self::Unreplied,
            ConnectionState::Replied => Self::Replied,
            ConnectionState::Assured => Self::Assured,
        }
    }
}
