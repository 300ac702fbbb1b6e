//! Tiers of a frontend's instances, the most wanted first.

use std::net::SocketAddr;

/// The name of the services that gateways of ours are registered as.
pub(crate) const GATEWAYS: &str = "shunt-gateway";

/// Mark of such a registration: the service behind it, in the catalog's words.
pub(crate) const OF_SERVICE: &str = "shunt-service";

/// Its protocol.
pub(crate) const OF_PROTOCOL: &str = "shunt-protocol";

/// Mark that shows whether it leads to those that speak Connect's protocol.
pub(crate) const OF_CONNECT: &str = "shunt-connect";

/// A datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Datacenter {
    /// The agent's own.
    Own,
    /// Another one, by its name.
    Other(Box<str>),
}

/// Instances that are wanted alike.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Tier {
    /// Their datacenter.
    pub(crate) datacenter: Datacenter,
    /// Of which service: a resolver may name another one than the frontend does.
    pub(crate) service: Box<str>,
    /// Filter of them, in the catalog's own words.
    pub(crate) filter: Option<Box<str>>,
    /// True if those that are warned of drain, also where the frontend would have them.
    pub(crate) only_passing: bool,
}

impl Tier {
    /// All instances of a service there.
    pub(crate) fn of(service: &str, datacenter: Datacenter) -> Self {
        Self {
            datacenter,
            service: service.into(),
            filter: None,
            only_passing: false,
        }
    }
}

/// Source of the tiers after the own datacenter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failover {
    /// So many of the nearest other datacenters, and then these, in this order.
    Datacenters {
        /// Number of the nearest.
        nearest: usize,
        /// And then.
        then: Vec<Box<str>>,
    },
    /// The resolver of the service, which decides the first one, too.
    Resolver,
}

impl Failover {
    /// No other datacenter.
    pub(crate) const NONE: Self = Self::Datacenters {
        nearest: 0,
        then: Vec::new(),
    };
}

/// Path of connections to another datacenter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Via {
    /// To the instances themselves, by their addresses for others (`wan`).
    #[default]
    Direct,
    /// To a port of a gateway of ours, one for each service.
    Gateway,
    /// To a mesh gateway, which needs the name that the client sends in TLS.
    Mesh,
}

/// Form in which a frontend is offered to other datacenters, as a gateway of ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Export {
    /// At its own address and port.
    AsIs,
    /// At this address, which a device before it leads to it.
    At(SocketAddr),
}
