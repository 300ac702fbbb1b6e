//! The endpoints behind a service's port.

use std::{net::IpAddr, sync::Arc};

use crate::named::FromName;

/// One endpoint of a service's port, usable or not; the usable ones become backends.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// Its address.
    pub ip: IpAddr,
    /// Its port, never 0.
    pub port: u16,
    /// Its share of new connections is weight / sum of weights; 0 receives none.
    pub weight: u32,
    /// True if it runs on this node.
    pub local: bool,
    /// Its present state.
    pub state: EndpointState,
    /// True if it still serves while it is [`Terminating`](EndpointState::Terminating): it takes
    /// new connections where nothing else does (Kubernetes KEP-1669). Of no meaning otherwise.
    pub serving: bool,
    /// The sets that it belongs to.
    pub scopes: Scopes,
    /// The clients that it is meant for. They are read when an operator drains endpoints: `scopes` has
    /// what follows from them without that.
    pub hints: Hints,
    /// The node that it runs on, to which direct server return hands packets.
    pub node: Option<Arc<str>>,
    /// The zone that the node is in. Lookups show it; nothing is decided by it.
    pub zone: Option<Arc<str>>,
}

/// The present state of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum EndpointState {
    /// It takes new connections.
    #[default]
    Ready,
    /// It is on its way out: it keeps its connections and takes no new one, unless it is serving
    /// and nothing else is left.
    Terminating,
    /// It takes nothing.
    NotReady,
}

impl EndpointState {
    /// The name as it is written: `Ready`, `Terminating`, `NotReady`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ready => "Ready",
            Self::Terminating => "Terminating",
            Self::NotReady => "NotReady",
        }
    }
}

impl FromName for EndpointState {
    const EXPECTED: &'static str = "`Ready`, `Terminating` or `NotReady`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::Ready, Self::Terminating, Self::NotReady]
            .into_iter()
            .find(|state| state.name() == name)
    }
}

/// One of a port's two sets of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Scope {
    /// The set of frontends of policy Cluster.
    Cluster,
    /// The set of frontends of policy Local.
    Local,
}

impl FromName for Scope {
    const EXPECTED: &'static str = "`Cluster` or `Local`";

    fn from_name(name: &str) -> Option<Self> {
        match name {
            "Cluster" => Some(Self::Cluster),
            "Local" => Some(Self::Local),
            _ => None,
        }
    }
}

/// The sets that an endpoint belongs to, of its port's two. In neither: it exists, but not for this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Scopes {
    /// It serves frontends of policy Cluster.
    pub cluster: bool,
    /// It serves frontends of policy Local; only an endpoint on this node does.
    pub local: bool,
}

impl Scopes {
    /// Returns the sets of an endpoint whose event gives none: Cluster, and Local if it is `local`.
    pub const fn default_of(local: bool) -> Self {
        Self {
            cluster: true,
            local,
        }
    }
}

/// The clients that an endpoint is meant for, as seen from this node. Events do not contain them: a source that reads
/// hints sets them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Hints {
    /// The hint for nodes.
    pub node: Hint,
    /// The hint for zones.
    pub zone: Hint,
}

/// A hint of one kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Hint {
    /// There is none.
    #[default]
    None,
    /// It names this node, or this node's zone.
    Here,
    /// It names others alone.
    Elsewhere,
}
