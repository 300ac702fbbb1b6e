//! An endpoint behind an address.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::Serialize;
use shunt_model::Use;

use crate::{
    proto,
    view::{
        error::{Malformed, address, port},
        protocol::ProtocolNumber,
        workload::Workload,
    },
};

/// Key by which an endpoint is recognized.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct EndpointKey {
    /// The port of the asked address that it is behind.
    pub frontend_port: u16,
    /// The protocol.
    pub protocol: ProtocolNumber,
    /// Its address.
    pub ip: IpAddr,
    /// Its port.
    pub port: u16,
}

impl fmt::Display for EndpointKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            frontend_port: _,
            protocol,
            ip,
            port,
        } = *self;
        write!(f, "{}/{protocol}", SocketAddr::new(ip, port))
    }
}

/// An endpoint behind an address, usable or not. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BehindEndpoint {
    /// Key by which it is recognized.
    #[serde(flatten)]
    pub key: EndpointKey,
    /// The service whose endpoint it is, `namespace/name`.
    pub service: String,
    /// It takes new connections.
    pub ready: bool,
    /// It answers, ready or not.
    pub serving: bool,
    /// It is on its way out.
    pub terminating: bool,
    /// True if it runs on the agent's node.
    pub local: bool,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The zone that it runs in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    /// Among the endpoints of its service.
    pub weight: u32,
    /// `Cluster`, `Local`: the sets that it belongs to.
    pub scopes: Vec<&'static str>,
    /// The datapath's use of it: `new`, `open` or `none`.
    pub used: &'static str,
    /// The same for clients on the agent's node.
    pub used_here: &'static str,
    /// Workload that runs there.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload: Option<Workload>,
}

impl TryFrom<proto::EndpointKey> for EndpointKey {
    type Error = Malformed;

    fn try_from(message: proto::EndpointKey) -> Result<Self, Malformed> {
        let proto::EndpointKey {
            frontend_port,
            protocol,
            ip,
            port: number,
        } = message;
        Ok(Self {
            frontend_port: port(frontend_port)?,
            protocol: protocol.try_into()?,
            ip: address(&ip)?,
            port: port(number)?,
        })
    }
}

impl TryFrom<proto::BehindEndpoint> for BehindEndpoint {
    type Error = Malformed;

    fn try_from(message: proto::BehindEndpoint) -> Result<Self, Malformed> {
        let proto::BehindEndpoint {
            key,
            service,
            ready,
            serving,
            terminating,
            local,
            node,
            zone,
            weight,
            scopes,
            used,
            used_here,
            workload,
        } = message;
        let list = scopes.map(|proto::Scopes { list }| list);
        Ok(Self {
            key: key.ok_or(Malformed::Missing("endpoint key"))?.try_into()?,
            service,
            ready,
            serving,
            terminating,
            local,
            node,
            zone,
            weight,
            scopes: list
                .into_iter()
                .flatten()
                .map(scope)
                .collect::<Result<_, _>>()?,
            used: used_for(used)?,
            used_here: used_for(used_here)?,
            workload: workload.map(TryInto::try_into).transpose()?,
        })
    }
}

fn scope(number: i32) -> Result<&'static str, Malformed> {
    match proto::Scope::try_from(number) {
        Ok(proto::Scope::Cluster) => Ok("Cluster"),
        Ok(proto::Scope::Local) => Ok("Local"),
        Ok(proto::Scope::Unspecified) | Err(_) => Err(Malformed::Value(number, "scope")),
    }
}

fn used_for(number: i32) -> Result<&'static str, Malformed> {
    let used = match proto::Use::try_from(number) {
        Ok(proto::Use::Unspecified) => Use::None,
        Ok(proto::Use::New) => Use::New,
        Ok(proto::Use::Open) => Use::Open,
        Err(_) => return Err(Malformed::Value(number, "use of an endpoint")),
    };
    Ok(used.name())
}
