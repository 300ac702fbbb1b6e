//! The renderer's results, which the datapath installs: frontends and their backend sets.

use std::{fmt, net::IpAddr, num::NonZeroU32, sync::Arc};

use ipnet::IpNet;

use crate::{
    endpoint::Scopes, forwarding::Forwarding, masquerade::Masquerade, policy::TrafficPolicy,
    protocol::Protocol, selection::Selection, service_id::ServiceId, split::Split,
};

/// The identity of a frontend: what a client connects to.
///
/// Ordered by address (IPv4 first), port, protocol: the order of every listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FrontendKey {
    /// The address that clients use.
    pub address: IpAddr,
    /// The port in host byte order, never 0.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Protocol,
}

impl fmt::Display for FrontendKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            address,
            port,
            protocol,
        } = self;
        match address {
            IpAddr::V4(address) => write!(f, "{address}:{port}/{protocol}"),
            IpAddr::V6(address) => write!(f, "[{address}]:{port}/{protocol}"),
        }
    }
}

/// The kind of address that a frontend stands on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FrontendKind {
    /// The service's address inside the cluster.
    ClusterIp,
    /// A node's address with the service's node port.
    NodePort,
    /// An address that is routed to the nodes from outside.
    ExternalIp,
    /// An address that a load balancer announces.
    LoadBalancerIp,
}

impl FrontendKind {
    /// All kinds.
    pub const ALL: [Self; 4] = [
        Self::ClusterIp,
        Self::ExternalIp,
        Self::LoadBalancerIp,
        Self::NodePort,
    ];

    /// The name as it is shown and written: `ClusterIP`, `NodePort`, `ExternalIP`, `LoadBalancerIP`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ClusterIp => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::ExternalIp => "ExternalIP",
            Self::LoadBalancerIp => "LoadBalancerIP",
        }
    }
}

/// The clients whose connections a frontend takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clients {
    /// Everyone whose packets reach a frontend interface.
    Everyone,
    /// Only clients on this node (the NodePort of another node's address).
    ThisNode,
}

/// Outcome of a new connection to a frontend whose set has no usable backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// The client receives an error: there is no usable backend anywhere.
    Reject,
    /// Silence: there are usable backends, but the traffic policy keeps them from this frontend,
    /// and a load balancer is to try another node.
    Drop,
}

/// Everything about a frontend but its identity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frontend {
    /// The kind of its address.
    pub kind: FrontendKind,
    /// The traffic policy that chose its backends: external for NodePort, ExternalIP and load
    /// balancer addresses, internal for ClusterIP.
    pub policy: TrafficPolicy,
    /// The clients whose connections it takes.
    pub clients: Clients,
    /// Forwarding of packets from clients elsewhere to its backends on other nodes.
    pub forwarding: Forwarding,
    /// Source with which connections from clients elsewhere go on to its backends on this node.
    pub masquerade: Masquerade,
    /// Outcome of its connections while its set has no usable backend.
    pub refusal: Refusal,
    /// The set that its connections go to. Frontends of one service port share one set.
    pub backends: Arc<BackendSet>,
    /// The frontend for clients on this node in its place, if that is another one: an external address of policy Local
    /// serves them as under policy Cluster. In mode dsr, the frontend for packets that another node has handed over:
    /// the backends here.
    pub this_node: Option<Arc<Frontend>>,
    /// In mode dsr, what packets have instead that cannot begin a connection and that no node knows: all backends,
    /// those that are draining as well, as if each took connections. `None` if none is draining.
    pub with_draining: Option<Arc<Frontend>>,
    /// The clients that may use it, of its own address family, sorted; empty: everyone.
    pub sources: Arc<[IpNet]>,
}

impl Frontend {
    /// Returns whether its connections are dropped because no backend of this node takes any, although others may.
    pub fn lacks_local_endpoints(&self) -> bool {
        let mut backends = self.backends.backends.iter();
        self.policy == TrafficPolicy::Local
            && self.refusal == Refusal::Drop
            && backends.all(|backend| backend.weight == 0)
    }
}

/// The part of a service port's backends that a set is of. A backend has one weight, so sets of different parts share
/// none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PortPart {
    /// The endpoints of its split, if it has one; else its own.
    Main,
    /// Its own, where other frontends of the port have a split and these have not.
    BesideSplit,
    /// Its own with those that are draining, see [`Frontend::with_draining`].
    WithDraining,
}

impl PortPart {
    /// All parts.
    pub const ALL: [Self; 3] = [Self::Main, Self::BesideSplit, Self::WithDraining];
}

/// The backends that the frontends of one service port select from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSet {
    /// The service that owns the set.
    pub service: Arc<ServiceId>,
    /// The name of the service's port.
    pub port: Arc<str>,
    /// Session affinity: for how many seconds since its last connection a client stays with its
    /// backend; 0 is off.
    pub affinity_timeout: u32,
    /// The size of the Maglev table by which they are selected; `None`: at random, by weight.
    pub maglev: Option<NonZeroU32>,
    /// The part of the service port that it is of.
    pub part: PortPart,
    /// The shares of a split; `None`: each backend's is its weight / sum of weights.
    pub split: Option<SplitShares>,
    /// Sorted by address and port, each (address, port) once, all of one address family.
    pub backends: Vec<Backend>,
}

impl BackendSet {
    /// Returns its frontends' method of selecting from it.
    pub const fn selection(&self) -> Selection {
        match self.maglev {
            Some(_) => Selection::Maglev,
            None => Selection::Weighted,
        }
    }

    /// Returns its number of slots: one for each backend, and one for connections that are refused, if any are.
    pub fn slot_count(&self) -> usize {
        self.backends.len() + usize::from(self.refused() > 0)
    }

    /// Returns the numbers in proportion to which the backends share new connections, in their order, and behind them
    /// the share that is refused, if there is one.
    pub fn shares(&self) -> Vec<u32> {
        match &self.split {
            None => self.backends.iter().map(|backend| backend.weight).collect(),
            Some(SplitShares {
                of_backends,
                refused,
                ..
            }) => {
                let refused = (*refused > 0).then_some(refused);
                of_backends.iter().chain(refused).copied().collect()
            }
        }
    }

    /// The share of connections that is refused while backends take the others; 0: none.
    pub fn refused(&self) -> u32 {
        self.split.as_ref().map_or(0, |split| split.refused)
    }

    /// Returns whether any backend takes new connections.
    pub fn is_usable(&self) -> bool {
        match &self.split {
            None => self.backends.iter().any(|backend| backend.weight > 0),
            Some(split) => split.of_backends.iter().any(|share| *share > 0),
        }
    }
}

/// The shares of a set's connections by a split, in parts of [`u32::MAX`]. Where a set has only what is on this node of
/// a split whose choice another node has made, the parts are fewer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitShares {
    /// The split.
    pub split: Arc<Split>,
    /// The share of each backend.
    pub of_backends: Arc<[u32]>,
    /// The share that is refused; 0 also where no backend takes connections.
    pub refused: u32,
    /// In mode `first`, the place in the split of the backend that takes all connections; `None`: none can, or the
    /// mode is another.
    pub first: Option<usize>,
}

/// One backend with its share of new connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Backend {
    /// Its address.
    pub ip: IpAddr,
    /// Its port in host byte order, never 0.
    pub port: u16,
    /// Its share of new connections is weight / sum of weights; 0 receives none. In the sets of a split
    /// it is 1 if the backend takes connections of any of them.
    pub weight: u32,
    /// True if it runs on this node.
    pub local: bool,
    /// The sets of its service port that it is in.
    pub scopes: Scopes,
}
