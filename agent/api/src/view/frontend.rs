//! Frontends.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use serde::Serialize;
use shunt_model::{Clients, Forwarding, Masquerade, Selection, TrafficPolicy};

use crate::{
    message, proto,
    view::{
        error::{Malformed, address, port},
        protocol::ProtocolNumber,
        service_counters::ServiceCounters,
        split::Split,
        text::shown_or_null,
    },
};

/// Address, port and protocol that a client connects to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FrontendKey {
    /// The frontend's address.
    pub address: IpAddr,
    /// Its port in host byte order; 0 if someone else put that into the kernel's table.
    pub port: u16,
    /// Its protocol; any number if someone else put it there.
    pub protocol: ProtocolNumber,
}

/// A frontend with its live state. The order of the fields is the order in JSON; a field that no event
/// has is `null` there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Frontend {
    /// Address, port and protocol that clients connect to.
    #[serde(flatten)]
    pub key: FrontendKey,
    /// `ClusterIP`, `NodePort`, `ExternalIP` or `LoadBalancerIP`.
    pub kind: Option<String>,
    /// `namespace/name`.
    pub service: Option<String>,
    /// The name of the service's port.
    pub service_port: Option<String>,
    /// Backends that it may use, as a traffic policy.
    #[serde(serialize_with = "shown_or_null")]
    pub policy: Option<TrafficPolicy>,
    /// Selection of a backend.
    #[serde(serialize_with = "shown_or_null")]
    pub selection: Option<Selection>,
    /// Path of packets from outside to its backends on other nodes.
    #[serde(serialize_with = "shown_or_null")]
    pub forwarding: Option<Forwarding>,
    /// Source with which connections from outside go on to its backends on this node.
    #[serde(serialize_with = "shown_or_null")]
    pub masquerade: Option<Masquerade>,
    /// Session affinity in seconds; 0 is off.
    pub affinity_timeout: u32,
    /// In the order of the kernel's table.
    pub backends: Vec<Backend>,
    /// Split of its new connections among several services, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// Difference of the kernel's tables from the events, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub difference: Option<Difference>,
    /// Counters of its service port, of all its frontends together, if it is counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub counters: Option<ServiceCounters>,
    /// Ranges of the clients that may use it; none: everyone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub source_ranges: Vec<String>,
    /// True if only clients on this node are served.
    #[serde(skip)]
    pub this_node_only: bool,
}

/// A backend that a frontend selects from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Backend {
    /// Its address.
    pub ip: IpAddr,
    /// Its port in host byte order.
    pub port: u16,
    /// Its share of new connections is weight / sum of weights; 0 receives none. Of a split it is its share
    /// in parts of [`u32::MAX`], together with what is refused.
    pub weight: u32,
    /// True if it runs on this node.
    pub local: bool,
    /// Connections that it was chosen for since it is the service port's backend, through any of its frontends.
    pub new_connections: u64,
}

/// Difference of a frontend in the kernel from the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Difference {
    /// It is there, but not as the events lead to.
    Changed,
    /// No event leads to it.
    Unknown,
    /// Events lead to it, but it is not there.
    Missing,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Changed => "changed",
            Self::Unknown => "unknown",
            Self::Missing => "missing",
        })
    }
}

impl Difference {
    pub(super) fn of_message(number: i32) -> Result<Option<Self>, Malformed> {
        match proto::Difference::try_from(number) {
            Ok(proto::Difference::Unspecified) => Ok(None),
            Ok(proto::Difference::Changed) => Ok(Some(Self::Changed)),
            Ok(proto::Difference::Unknown) => Ok(Some(Self::Unknown)),
            Ok(proto::Difference::Missing) => Ok(Some(Self::Missing)),
            Err(_) => Err(Malformed::Value(number, "difference")),
        }
    }
}

impl From<Difference> for proto::Difference {
    fn from(difference: Difference) -> Self {
        match difference {
            Difference::Changed => Self::Changed,
            Difference::Unknown => Self::Unknown,
            Difference::Missing => Self::Missing,
        }
    }
}

impl fmt::Display for FrontendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            port,
            protocol,
        } = *self;
        write!(f, "{}/{protocol}", SocketAddr::new(address, port))
    }
}

impl From<shunt_model::FrontendKey> for FrontendKey {
    fn from(key: shunt_model::FrontendKey) -> Self {
        let shunt_model::FrontendKey {
            address,
            port,
            protocol,
        } = key;
        Self {
            address,
            port,
            protocol: protocol.into(),
        }
    }
}

impl From<FrontendKey> for proto::FrontendKey {
    fn from(key: FrontendKey) -> Self {
        let FrontendKey {
            address,
            port,
            protocol: ProtocolNumber(protocol),
        } = key;
        Self {
            address: address.to_string(),
            port: port.into(),
            protocol: protocol.into(),
        }
    }
}

impl TryFrom<proto::FrontendKey> for FrontendKey {
    type Error = Malformed;

    fn try_from(key: proto::FrontendKey) -> Result<Self, Malformed> {
        let proto::FrontendKey {
            address: text,
            port: number,
            protocol,
        } = key;
        Ok(Self {
            address: address(&text)?,
            port: port(number)?,
            protocol: protocol.try_into()?,
        })
    }
}

/// A key that a message must have.
pub(super) fn key(key: Option<proto::FrontendKey>) -> Result<FrontendKey, Malformed> {
    key.ok_or(Malformed::Missing("frontend key"))?.try_into()
}

impl From<(shunt_model::FrontendKey, &shunt_model::Frontend)> for Frontend {
    /// One that events lead to, in the kernel or not.
    fn from((key, frontend): (shunt_model::FrontendKey, &shunt_model::Frontend)) -> Self {
        let shunt_model::Frontend {
            kind,
            policy,
            clients,
            forwarding,
            masquerade,
            refusal: _,
            backends,
            this_node: _,
            with_draining: _,
            sources,
        } = frontend;
        Self {
            key: key.into(),
            kind: Some(kind.name().to_owned()),
            service: Some(backends.service.to_string()),
            service_port: Some(backends.port.to_string()),
            policy: Some(*policy),
            selection: Some(backends.selection()),
            forwarding: Some(*forwarding),
            masquerade: Some(*masquerade),
            affinity_timeout: backends.affinity_timeout,
            backends: with_shares(&backends.backends, &backends.shares()),
            split: backends.split.as_ref().map(Into::into),
            difference: None,
            counters: None,
            source_ranges: sources.iter().map(ToString::to_string).collect(),
            this_node_only: *clients == Clients::ThisNode,
        }
    }
}

impl From<Frontend> for proto::Frontend {
    fn from(frontend: Frontend) -> Self {
        let Frontend {
            key,
            kind,
            service,
            service_port,
            policy,
            selection,
            forwarding,
            masquerade,
            affinity_timeout,
            backends,
            split,
            difference,
            counters,
            source_ranges,
            this_node_only,
        } = frontend;
        Self {
            key: Some(key.into()),
            kind,
            service,
            service_port,
            counters: counters.map(Into::into),
            continues: false,
            policy: policy
                .map_or(proto::TrafficPolicy::Unspecified, message::policy)
                .into(),
            selection: selection
                .map_or(proto::Selection::Unspecified, message::selection)
                .into(),
            forwarding: forwarding
                .map_or(proto::Forwarding::Unspecified, message::forwarding)
                .into(),
            masquerade: masquerade
                .map_or(proto::Masquerade::Unspecified, message::masquerade)
                .into(),
            affinity_timeout,
            source_ranges,
            this_node_only,
            backends: backends.into_iter().map(Into::into).collect(),
            split: split.map(Into::into),
            difference: difference
                .map_or(proto::Difference::Unspecified, Into::into)
                .into(),
        }
    }
}

impl TryFrom<proto::Frontend> for Frontend {
    type Error = Malformed;

    fn try_from(frontend: proto::Frontend) -> Result<Self, Malformed> {
        let proto::Frontend {
            key: at,
            kind,
            service,
            policy: chosen,
            affinity_timeout,
            source_ranges,
            this_node_only,
            backends,
            difference,
            service_port,
            counters,
            selection: selected,
            forwarding: forwarded,
            masquerade: masqueraded,
            split,
            // The frontends were joined before.
            continues: _,
        } = frontend;
        Ok(Self {
            key: key(at)?,
            kind,
            service,
            service_port,
            counters: counters.map(Into::into),
            policy: policy(chosen)?,
            selection: selection(selected)?,
            forwarding: forwarding(forwarded)?,
            masquerade: masquerade(masqueraded)?,
            affinity_timeout,
            backends: backends
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            split: split.map(TryInto::try_into).transpose()?,
            difference: Difference::of_message(difference)?,
            source_ranges,
            this_node_only,
        })
    }
}

/// Returns the traffic policy of a message, if it has one.
pub(super) fn policy(number: i32) -> Result<Option<TrafficPolicy>, Malformed> {
    match proto::TrafficPolicy::try_from(number) {
        Ok(proto::TrafficPolicy::Unspecified) => Ok(None),
        Ok(proto::TrafficPolicy::Cluster) => Ok(Some(TrafficPolicy::Cluster)),
        Ok(proto::TrafficPolicy::Local) => Ok(Some(TrafficPolicy::Local)),
        Err(_) => Err(Malformed::Value(number, "traffic policy")),
    }
}

/// Returns the selection of a frontend, if a message has it.
pub(super) fn selection(number: i32) -> Result<Option<Selection>, Malformed> {
    match proto::Selection::try_from(number) {
        Ok(proto::Selection::Unspecified) => Ok(None),
        Ok(proto::Selection::Weighted) => Ok(Some(Selection::Weighted)),
        Ok(proto::Selection::Maglev) => Ok(Some(Selection::Maglev)),
        Err(_) => Err(Malformed::Value(number, "selection")),
    }
}

/// Returns the path of packets to backends on other nodes, if a message has it.
pub(super) fn forwarding(number: i32) -> Result<Option<Forwarding>, Malformed> {
    match proto::Forwarding::try_from(number) {
        Ok(proto::Forwarding::Unspecified) => Ok(None),
        Ok(proto::Forwarding::Snat) => Ok(Some(Forwarding::Snat)),
        Ok(proto::Forwarding::Dsr) => Ok(Some(Forwarding::Dsr)),
        Err(_) => Err(Malformed::Value(number, "forwarding")),
    }
}

/// Returns the source of connections to backends on this node, if a message has it.
fn masquerade(number: i32) -> Result<Option<Masquerade>, Malformed> {
    match proto::Masquerade::try_from(number) {
        Ok(proto::Masquerade::Unspecified) => Ok(None),
        Ok(proto::Masquerade::Off) => Ok(Some(Masquerade::Off)),
        Ok(proto::Masquerade::On) => Ok(Some(Masquerade::On)),
        Ok(proto::Masquerade::NotInDsr) => Ok(Some(Masquerade::NotInDsr)),
        Err(_) => Err(Malformed::Value(number, "masquerade")),
    }
}

/// Backends as they are shown, each with what its share is counted by.
pub fn with_shares(backends: &[shunt_model::Backend], shares: &[u32]) -> Vec<Backend> {
    let shown = backends.iter().zip(shares).map(|(backend, share)| {
        let &shunt_model::Backend {
            ip,
            port,
            weight: _,
            local,
            scopes: _,
        } = backend;
        Backend {
            ip,
            port,
            weight: *share,
            local,
            new_connections: 0,
        }
    });
    shown.collect()
}

impl From<Backend> for proto::LiveBackend {
    fn from(backend: Backend) -> Self {
        let Backend {
            ip,
            port,
            weight,
            local,
            new_connections,
        } = backend;
        Self {
            ip: ip.to_string(),
            port: port.into(),
            weight,
            local,
            new_connections,
        }
    }
}

impl TryFrom<proto::LiveBackend> for Backend {
    type Error = Malformed;

    fn try_from(backend: proto::LiveBackend) -> Result<Self, Malformed> {
        let proto::LiveBackend {
            ip,
            port: number,
            weight,
            local,
            new_connections,
        } = backend;
        Ok(Self {
            ip: address(&ip)?,
            port: port(number)?,
            weight,
            local,
            new_connections,
        })
    }
}
