//! Owners and claimants of an address.

use std::net::IpAddr;

use serde::Serialize;
use shunt_model::{Forwarding, Selection, TrafficPolicy};

use crate::{
    proto,
    view::{
        error::{Malformed, address, port},
        frontend::{FrontendKey, forwarding, policy, selection},
        protocol::ProtocolNumber,
        text::{shown, shown_or_null},
        workload::Workload,
    },
};

/// One that an address belongs to, or that wants it. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Kind of the address for it, for example `ClusterIP`.
    pub kind: String,
    /// True if it has the address. Otherwise it waits for another.
    pub in_use: bool,
    /// Owner or claimant.
    #[serde(flatten)]
    pub who: Who,
}

/// Owner or claimant of an address. Under its name in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Who {
    /// A port of a service.
    Service(Box<ServiceTarget>),
    /// The health check of a service.
    HealthCheck {
        /// `namespace/name`.
        service: String,
        /// Port at which nodes answer.
        port: u16,
    },
    /// A workload.
    Workload(Box<Workload>),
    /// A node.
    Node {
        /// Its name, if events have it.
        name: Option<String>,
        /// True if it is the agent's.
        own: bool,
    },
    /// A service that does not declare the port.
    UndefinedPort {
        /// `namespace/name`.
        service: String,
        /// Kind of the address for it.
        address: String,
    },
}

/// A port of a service. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ServiceTarget {
    /// `namespace/name`.
    pub service: String,
    /// May be empty.
    pub port_name: String,
    /// On the service's own addresses.
    pub port: u16,
    /// Its protocol.
    pub protocol: ProtocolNumber,
    /// On the nodes' addresses.
    pub node_port: Option<u16>,
    /// The service's addresses inside the cluster.
    pub cluster_ips: Vec<IpAddr>,
    /// Backends that its external frontends use.
    #[serde(serialize_with = "shown")]
    pub traffic_policy: TrafficPolicy,
    /// Backends that its ClusterIP frontends use.
    #[serde(serialize_with = "shown")]
    pub internal_traffic_policy: TrafficPolicy,
    /// In seconds; 0 is off.
    pub affinity_timeout: u32,
    /// Frontend that clients connect to.
    pub frontend: Option<FrontendKey>,
    /// The traffic policy that chose the frontend's backends.
    #[serde(serialize_with = "shown_or_null")]
    pub policy: Option<TrafficPolicy>,
    /// True if only clients on the agent's node are served.
    pub this_node_only: bool,
    /// Outcome of a new connection while no backend is usable: `reject` or `drop`.
    pub refusal: String,
    /// Selection of a backend.
    #[serde(serialize_with = "shown_or_null")]
    pub selection: Option<Selection>,
    /// Path of packets from outside to its backends on other nodes.
    #[serde(serialize_with = "shown_or_null")]
    pub forwarding: Option<Forwarding>,
    /// Ranges of clients that may use it; none: every client.
    pub sources: Vec<String>,
}

impl TryFrom<proto::Target> for Target {
    type Error = Malformed;

    fn try_from(message: proto::Target) -> Result<Self, Malformed> {
        use proto::target::Who as Message;
        let proto::Target { kind, in_use, who } = message;
        let who = match who.ok_or(Malformed::Missing("target"))? {
            Message::Service(service) => Who::Service(Box::new(service.try_into()?)),
            Message::HealthCheck(check) => {
                let proto::HealthCheckTarget {
                    service,
                    port: number,
                } = check;
                Who::HealthCheck {
                    service,
                    port: port(number)?,
                }
            }
            Message::Workload(workload) => Who::Workload(Box::new(workload.try_into()?)),
            Message::Node(proto::NodeTarget { name, own }) => Who::Node { name, own },
            Message::UndefinedPort(proto::UndefinedPortTarget { service, kind }) => {
                Who::UndefinedPort {
                    service,
                    address: kind,
                }
            }
        };
        Ok(Self { kind, in_use, who })
    }
}

impl TryFrom<proto::ServiceTarget> for ServiceTarget {
    type Error = Malformed;

    fn try_from(message: proto::ServiceTarget) -> Result<Self, Malformed> {
        let proto::ServiceTarget {
            service,
            port_name,
            port: number,
            protocol,
            node_port,
            cluster_ips,
            traffic_policy,
            internal_traffic_policy,
            affinity_timeout,
            frontend,
            policy: chosen,
            this_node_only,
            refusal,
            selection: selected,
            forwarding: forwarded,
            sources,
        } = message;
        let given = |policy: Option<TrafficPolicy>| policy.unwrap_or_default();
        Ok(Self {
            service,
            port_name,
            port: port(number)?,
            protocol: protocol.try_into()?,
            node_port: node_port.map(port).transpose()?,
            cluster_ips: cluster_ips
                .iter()
                .map(|ip| address(ip))
                .collect::<Result<_, _>>()?,
            traffic_policy: given(policy(traffic_policy)?),
            internal_traffic_policy: given(policy(internal_traffic_policy)?),
            affinity_timeout,
            frontend: frontend.map(TryInto::try_into).transpose()?,
            policy: policy(chosen)?,
            this_node_only,
            refusal,
            selection: selection(selected)?,
            forwarding: forwarding(forwarded)?,
            sources,
        })
    }
}
