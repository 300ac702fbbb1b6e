//! An answer.

use serde::Serialize;

use crate::{
    proto,
    view::{
        error::{Malformed, port},
        lookup::{endpoint::BehindEndpoint, target::Target},
        protocol::ProtocolNumber,
    },
};

/// Targets and endpoints of an address, by the events. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Answer {
    /// Counts the events that took effect since the agent's start.
    pub generation: u64,
    /// Kind of the address, for example `ClusterIP`.
    pub kind: String,
    /// Everyone that it belongs to, or that wants it: those in use first.
    pub targets: Vec<Target>,
    /// Every endpoint behind it.
    pub endpoints: Vec<BehindEndpoint>,
    /// The service ports that have it as an endpoint.
    pub member_of: Vec<Membership>,
}

/// A service port that has an address as an endpoint.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Membership {
    /// `namespace/name`.
    pub service: String,
    /// The name of its port; may be empty.
    pub port_name: String,
    /// The service's port.
    pub port: u16,
    /// Its protocol.
    pub protocol: ProtocolNumber,
    /// The endpoint's port.
    pub endpoint_port: u16,
    /// It takes new connections.
    pub ready: bool,
    /// It answers, ready or not.
    pub serving: bool,
    /// It is on its way out.
    pub terminating: bool,
}

impl TryFrom<proto::Answer> for Answer {
    type Error = Malformed;

    fn try_from(message: proto::Answer) -> Result<Self, Malformed> {
        let proto::Answer {
            generation,
            kind,
            targets,
            endpoints,
            member_of,
        } = message;
        Ok(Self {
            generation,
            kind,
            targets: each(targets)?,
            endpoints: each(endpoints)?,
            member_of: each(member_of)?,
        })
    }
}

impl TryFrom<proto::Membership> for Membership {
    type Error = Malformed;

    fn try_from(message: proto::Membership) -> Result<Self, Malformed> {
        let proto::Membership {
            service,
            port_name,
            port: number,
            protocol,
            endpoint_port,
            ready,
            serving,
            terminating,
        } = message;
        Ok(Self {
            service,
            port_name,
            port: port(number)?,
            protocol: protocol.try_into()?,
            endpoint_port: port(endpoint_port)?,
            ready,
            serving,
            terminating,
        })
    }
}

/// Converts each message of a list.
pub(super) fn each<M, V: TryFrom<M, Error = Malformed>>(list: Vec<M>) -> Result<Vec<V>, Malformed> {
    list.into_iter().map(TryInto::try_into).collect()
}
