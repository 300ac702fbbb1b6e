//! Events of connections and packets, as they happen.

use std::{
    fmt,
    time::{Duration, SystemTime},
};

use serde::{Serialize, Serializer};

use crate::{
    proto::{self, flow_event::Kind},
    view::{connection::End, error::Malformed, protocol::ProtocolNumber},
};

/// An event. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowEvent {
    /// Time of the event.
    #[serde(serialize_with = "in_rfc_3339")]
    pub time: SystemTime,
    /// Kind of the event.
    pub kind: FlowKind,
    /// Why it ended, or was refused or dropped; empty of one that began.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The transport protocol.
    pub protocol: ProtocolNumber,
    /// Client that began the connection, or sender of the packet; `None` of a packet that is not understood.
    pub client: Option<End>,
    /// Frontend that the client connects to, or destination of the packet.
    pub frontend: Option<End>,
    /// `namespace/name`, if it is of a service.
    pub service: Option<String>,
    /// The name of the service's port.
    pub service_port: Option<String>,
    /// Backend that serves the connection; `None` of packets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<End>,
    /// From where its packets go on, if not from the client's own address and port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snat_source: Option<End>,
    /// For how long the connection was there, if that is known.
    #[serde(
        rename = "duration_seconds",
        serialize_with = "in_seconds",
        skip_serializing_if = "Option::is_none"
    )]
    pub duration: Option<Duration>,
    /// The packet, if it is one.
    #[serde(flatten)]
    pub packet: Option<FlowPacket>,
}

/// A packet that was refused or dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowPacket {
    /// The index of the interface that it was at.
    pub interface: u32,
    /// Length in bytes from the link's header on.
    pub length: u32,
    /// Its first bytes, 128 at most, if they were asked for.
    #[serde(skip)]
    pub bytes: Vec<u8>,
    /// True if it begins with an Ethernet header; else with the IP header.
    #[serde(skip)]
    pub is_ethernet: bool,
}

impl FlowPacket {
    /// The same without its bytes.
    #[must_use]
    pub const fn without_bytes(&self) -> Self {
        let &Self {
            interface,
            length,
            bytes: _,
            is_ethernet,
        } = self;
        Self {
            interface,
            length,
            bytes: Vec::new(),
            is_ethernet,
        }
    }
}

/// Number of new connections a second that can be shown one by one.
const BEARABLE: f64 = 1000.0;

/// Returns the number of connections of which one is shown to people, while `new` are opened a second: of more
/// than a person bears, one in so many that it is about that many again.
pub fn one_in(new: f64) -> u32 {
    (new / BEARABLE).ceil().max(1.0) as u32
}

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FlowKind {
    /// A connection began: a backend was chosen for it.
    Opened,
    /// A connection ended.
    Ended,
    /// A packet was rejected, and its sender notified.
    Refused,
    /// A packet was dropped.
    Dropped,
}

impl FlowKind {
    /// Each of them.
    pub const ALL: [Self; 4] = [Self::Opened, Self::Ended, Self::Refused, Self::Dropped];

    /// As it is shown.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Opened => "opened",
            Self::Ended => "ended",
            Self::Refused => "refused",
            Self::Dropped => "dropped",
        }
    }

    /// That of its number in a message.
    ///
    /// # Errors
    ///
    /// There is none of this number.
    pub fn of_message(number: i32) -> Result<Self, Malformed> {
        match Kind::try_from(number) {
            Ok(Kind::Opened) => Ok(Self::Opened),
            Ok(Kind::Ended) => Ok(Self::Ended),
            Ok(Kind::Refused) => Ok(Self::Refused),
            Ok(Kind::Dropped) => Ok(Self::Dropped),
            Ok(Kind::Unspecified) | Err(_) => Err(Malformed::Value(number, "kind of an event")),
        }
    }
}

impl fmt::Display for FlowKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl From<FlowKind> for Kind {
    fn from(kind: FlowKind) -> Self {
        match kind {
            FlowKind::Opened => Self::Opened,
            FlowKind::Ended => Self::Ended,
            FlowKind::Refused => Self::Refused,
            FlowKind::Dropped => Self::Dropped,
        }
    }
}

fn in_rfc_3339<S: Serializer>(time: &SystemTime, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(&humantime::format_rfc3339_micros(*time))
}

#[expect(clippy::ref_option, reason = "serde gives it so")]
fn in_seconds<S: Serializer>(duration: &Option<Duration>, to: S) -> Result<S::Ok, S::Error> {
    duration
        .map(|duration| duration.as_secs_f64())
        .serialize(to)
}

impl FlowEvent {
    /// Returns the time of the event in nanoseconds since 1970.
    pub fn unix_nanoseconds(&self) -> u64 {
        let since = self.time.duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, nanoseconds)
    }
}

impl From<FlowEvent> for proto::FlowEvent {
    fn from(event: FlowEvent) -> Self {
        let time = event.unix_nanoseconds();
        let FlowEvent {
            time: _,
            kind,
            reason,
            protocol: ProtocolNumber(protocol),
            client,
            frontend,
            service,
            service_port,
            backend,
            snat_source,
            duration,
            packet,
        } = event;
        let (interface, length, packet, ethernet) = match packet {
            Some(FlowPacket {
                interface,
                length,
                bytes,
                is_ethernet,
            }) => (interface, length, bytes, is_ethernet),
            None => (0, 0, Vec::new(), false),
        };
        Self {
            kind: Kind::from(kind).into(),
            time,
            protocol: protocol.into(),
            client: client.map(Into::into),
            frontend: frontend.map(Into::into),
            service,
            service_port,
            backend: backend.map(Into::into),
            snat_source: snat_source.map(Into::into),
            reason,
            duration: duration.map(nanoseconds),
            interface,
            length,
            packet,
            ethernet,
        }
    }
}

/// So many that there are 500 years of them.
fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl TryFrom<proto::FlowEvent> for FlowEvent {
    type Error = Malformed;

    fn try_from(event: proto::FlowEvent) -> Result<Self, Malformed> {
        let proto::FlowEvent {
            kind,
            time,
            protocol,
            client,
            frontend,
            service,
            service_port,
            backend,
            snat_source,
            reason,
            duration,
            interface,
            length,
            packet,
            ethernet,
        } = event;
        let kind = FlowKind::of_message(kind)?;
        let end =
            |end: Option<proto::Endpoint>| end.map(|end| End::try_from(Some(end))).transpose();
        let protocol =
            u8::try_from(protocol).map_err(|_| Malformed::Number(protocol, "a protocol"))?;
        let is_packet = matches!(kind, FlowKind::Refused | FlowKind::Dropped);
        Ok(Self {
            time: SystemTime::UNIX_EPOCH + Duration::from_nanos(time),
            kind,
            reason,
            protocol: ProtocolNumber(protocol),
            client: end(client)?,
            frontend: end(frontend)?,
            service,
            service_port,
            backend: end(backend)?,
            snat_source: end(snat_source)?,
            duration: duration.map(Duration::from_nanos),
            packet: is_packet.then_some(FlowPacket {
                interface,
                length,
                bytes: packet,
                is_ethernet: ethernet,
            }),
        })
    }
}
