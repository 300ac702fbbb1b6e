//! A service in an event.

use std::{collections::BTreeMap, net::IpAddr, num::NonZeroU16, sync::Arc};

use ipnet::IpNet;

use crate::{
    endpoint::Endpoint, forwarding::Forwarding, policy::TrafficPolicy, protocol::Protocol,
    selection::Selection, seniority::Seniority, service_id::ServiceId, split::Split,
    workload::PortRange,
};

/// A service: addresses, ports, and the endpoints behind them.
///
/// Every address is combined with every port. No address occurs twice in the three lists together,
/// and no two ports share a port or a node port of one protocol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Service {
    /// Its identity.
    pub id: Arc<ServiceId>,
    /// Addresses inside the cluster; none for a headless service.
    pub cluster_ips: Vec<IpAddr>,
    /// Addresses that are routed to the nodes from outside.
    pub external_ips: Vec<IpAddr>,
    /// Addresses that a load balancer announces.
    pub load_balancer_ips: Vec<IpAddr>,
    /// The clients that may use the load balancer addresses; empty for a family: everyone.
    pub load_balancer_source_ranges: Vec<IpNet>,
    /// Traffic policy of the external frontends: NodePort, ExternalIP, load balancer.
    pub traffic_policy: TrafficPolicy,
    /// Traffic policy of the ClusterIP frontends.
    pub internal_traffic_policy: TrafficPolicy,
    /// Session affinity in seconds since last use; 0 is off.
    pub session_affinity_timeout: u32,
    /// Its frontends' method of selecting a backend; `None`: the agent's default.
    pub selection: Option<Selection>,
    /// Forwarding of packets from outside to its backends on other nodes; `None`: the agent's default.
    pub forwarding: Option<Forwarding>,
    /// True if connections from outside go on to this node's backends from this node's address, too; `None`: the
    /// agent's default.
    pub masquerade: Option<bool>,
    /// The ports whose protocol proxies are not to look into; `None`: not given.
    pub opaque_ports: Option<Arc<[PortRange]>>,
    /// Treatment of requests by proxies, as JSON that only they read; `None`: not given.
    pub profile: Option<Arc<str>>,
    /// The names by which the DNS has single endpoints, of those that have one; `None`: none has.
    pub hostnames: Option<Arc<Hostnames>>,
    /// Since when it is there. Of two services that claim a frontend the older one has it; one of
    /// which this is not known comes after those of which it is, and among its like by its arrival.
    pub seniority: Option<Seniority>,
    /// Its ports, sorted by name, each name once.
    pub ports: Vec<ServicePort>,
}

/// The hostnames of endpoints, by their addresses.
pub type Hostnames = BTreeMap<IpAddr, Box<str>>;

/// One port of a service.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServicePort {
    /// Its name; empty only if it is the service's single port.
    pub name: Arc<str>,
    /// The transport protocol.
    pub protocol: Protocol,
    /// The port on the service's addresses, never 0.
    pub port: u16,
    /// The port on the nodes' addresses, if there is one.
    pub node_port: Option<NonZeroU16>,
    /// Sorted by address and port, each (address, port) once.
    pub endpoints: Vec<Endpoint>,
    /// The split of its new connections; `None`: its endpoints share them.
    pub split: Option<Arc<Split>>,
}

impl Service {
    /// Every address of its own, of whatever kind; the nodes' addresses are not among them.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let Self {
            cluster_ips,
            external_ips,
            load_balancer_ips,
            ..
        } = self;
        cluster_ips
            .iter()
            .chain(external_ips)
            .chain(load_balancer_ips)
            .copied()
    }

    /// Returns whether the service lives in the family of `address`: it has an address of that family, or
    /// none of any family.
    pub fn has_family_of(&self, address: IpAddr) -> bool {
        let mut addresses = self.addresses().peekable();
        addresses.peek().is_none() || addresses.any(|own| own.is_ipv4() == address.is_ipv4())
    }

    /// Returns whether any of its ports has a node port.
    pub fn has_node_ports(&self) -> bool {
        self.ports.iter().any(|port| port.node_port.is_some())
    }
}
