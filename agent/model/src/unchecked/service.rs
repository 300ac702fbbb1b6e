//! A service as it comes in.

use crate::{
    endpoint::{EndpointState, Scope},
    forwarding::Forwarding,
    policy::TrafficPolicy,
    protocol::Protocol,
    selection::Selection,
    split::{SplitFrontends, SplitMode},
    unchecked::{choice::Choice, text::Text},
};

/// Values under names, in their order. A map would forget that a name was given twice.
pub type Entries<'a, V> = Vec<(Text<'a>, V)>;

/// A service's identity.
#[derive(Debug)]
pub struct Id<'a> {
    /// The namespace.
    pub namespace: Text<'a>,
    /// The name within the namespace.
    pub name: Text<'a>,
}

/// A service.
#[derive(Debug)]
pub struct Service<'a> {
    /// Its identity.
    pub id: Id<'a>,
    /// Addresses inside the cluster.
    pub cluster_ips: Vec<Text<'a>>,
    /// Addresses that are routed to the nodes from outside.
    pub external_ips: Vec<Text<'a>>,
    /// Addresses that a load balancer announces.
    pub load_balancer_ips: Vec<Text<'a>>,
    /// The clients that may use the load balancer addresses.
    pub load_balancer_source_ranges: Vec<Text<'a>>,
    /// Traffic policy of the external frontends; `None`: all backends.
    pub traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    /// Traffic policy of the ClusterIP frontends; `None`: all backends.
    pub internal_traffic_policy: Option<Choice<'a, TrafficPolicy>>,
    /// Session affinity in seconds since last use; 0 is off.
    pub session_affinity_timeout: u32,
    /// Its frontends' method of selecting a backend; `None`: the agent's default.
    pub selection: Option<Choice<'a, Selection>>,
    /// Forwarding of packets from outside to a backend on another node; `None`: the agent's default.
    pub forwarding: Option<Choice<'a, Forwarding>>,
    /// True if connections from outside go on to this node's backends from this node's address, too; `None`: the
    /// agent's default.
    pub masquerade: Option<bool>,
    /// The ports whose protocol proxies are not to look into; `None`: not given.
    pub opaque_ports: Option<Vec<Text<'a>>>,
    /// Treatment of requests by proxies, as JSON; `None`: not given.
    pub profile: Option<Text<'a>>,
    /// The hostnames of endpoints, by their addresses.
    pub hostnames: Entries<'a, Text<'a>>,
    /// Ports by name.
    pub ports: Entries<'a, Port<'a>>,
    /// Backends by the name of their port.
    pub backends: Entries<'a, Vec<Backend<'a>>>,
    /// Splits by the name of their port.
    pub splits: Entries<'a, Split<'a>>,
}

/// A port of a service.
#[derive(Debug)]
pub struct Port<'a> {
    /// The transport protocol.
    pub protocol: Choice<'a, Protocol>,
    /// The port on the service's addresses.
    pub port: u16,
    /// The port on the nodes' addresses; 0: none.
    pub node_port: u16,
}

/// A backend of a port.
///
/// An event may also state whether it shares its node's network. Nothing is decided by that, so it is dropped where an
/// event is read.
#[derive(Debug)]
pub struct Backend<'a> {
    /// Its address.
    pub ip: Text<'a>,
    /// Its port.
    pub port: u16,
    /// Its share of new connections is weight / sum of weights; `None`: 1.
    pub weight: Option<u32>,
    /// True if it runs on this node.
    pub local: bool,
    /// Its present state; `None`: ready.
    pub state: Option<Choice<'a, EndpointState>>,
    /// True if it still serves while it is terminating.
    pub serving: bool,
    /// The node that it runs on.
    pub node: Option<Text<'a>>,
    /// The zone that the node is in.
    pub zone: Option<Text<'a>>,
    /// The sets that it belongs to; `None`: Cluster, and Local if it is local.
    pub scopes: Option<Vec<Choice<'a, Scope>>>,
}

/// A weighted split of a port's new connections.
#[derive(Debug)]
pub struct Split<'a> {
    /// Treatment of the share of a backend that cannot be used.
    pub mode: Choice<'a, SplitMode>,
    /// The frontends of the port that it is for; `None`: all.
    pub frontends: Option<Choice<'a, SplitFrontends>>,
    /// In declared order.
    pub backends: Vec<SplitBackend<'a>>,
}

/// A backend of a split: a service and its port, an address and its port, or what it cannot be.
#[derive(Debug)]
pub struct SplitBackend<'a> {
    /// The service.
    pub service: Option<Id<'a>>,
    /// The address.
    pub ip: Option<Text<'a>>,
    /// The port of either.
    pub port: Option<u16>,
    /// Reason for which it can never be used.
    pub invalid: Option<Text<'a>>,
    /// Its share is weight / sum of weights; `None`: 1.
    pub weight: Option<u32>,
}
