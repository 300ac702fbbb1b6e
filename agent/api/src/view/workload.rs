//! Workloads at addresses that are no service's.

use std::net::IpAddr;

use serde::Serialize;
use shunt_model::{Phase, WorkloadKind};

use crate::{
    proto,
    view::{
        error::{Malformed, address, port},
        protocol::ProtocolNumber,
    },
};

/// A workload. The order of the fields is the order in JSON; a field that no event has is not there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Workload {
    /// `Pod` or `ExternalWorkload`.
    pub kind: &'static str,
    /// The namespace.
    pub namespace: String,
    /// The name within the namespace.
    pub name: String,
    /// Its own addresses.
    pub ips: Vec<IpAddr>,
    /// The ports that it declares.
    pub ports: Vec<WorkloadPort>,
    /// Ports at addresses of its node.
    pub host_ports: Vec<HostPort>,
    /// The node that it runs on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// `Running`, `Pending` or `Terminating`.
    pub phase: &'static str,
    /// True if it takes connections.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<bool>,
    /// Object that made it, as `kind/name`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Ports whose protocol proxies are not to look into.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub opaque_ports: Option<Vec<String>>,
    /// More of these ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub policy_opaque_ports: Vec<String>,
    /// Its proxy, if it is part of a mesh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mesh: Option<Mesh>,
}

/// The proxy of a workload in a mesh: of a service account, or with a URI.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Mesh {
    /// The service account of a pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<String>,
    /// The namespace of its control plane.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub control_plane: Option<String>,
    /// The identity of a machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uri: Option<String>,
    /// Its name in TLS.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub server_name: Option<String>,
    /// The port where the proxy takes connections, in host byte order.
    pub inbound_port: u16,
    /// Ports that do not pass through the proxy.
    pub skipped_ports: Vec<String>,
}

/// A port that a workload declares.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct WorkloadPort {
    /// May be empty.
    pub name: String,
    /// In host byte order.
    pub port: u16,
    /// Its protocol.
    pub protocol: ProtocolNumber,
}

/// Address and port of a workload on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct HostPort {
    /// The node's address.
    pub ip: IpAddr,
    /// In host byte order.
    pub port: u16,
    /// Its protocol.
    pub protocol: ProtocolNumber,
}

impl TryFrom<proto::Workload> for Workload {
    type Error = Malformed;

    fn try_from(message: proto::Workload) -> Result<Self, Malformed> {
        let proto::Workload {
            id,
            ips,
            ports,
            host_ports,
            node,
            phase,
            ready,
            owner,
            opaque_ports,
            policy_opaque_ports,
            mesh,
        } = message;
        let proto::WorkloadId {
            kind,
            namespace,
            name,
        } = id.ok_or(Malformed::Missing("workload id"))?;
        let kind = match proto::WorkloadKind::try_from(kind) {
            Ok(proto::WorkloadKind::Pod) => WorkloadKind::Pod,
            Ok(proto::WorkloadKind::ExternalWorkload) => WorkloadKind::ExternalWorkload,
            Ok(proto::WorkloadKind::Unspecified) | Err(_) => {
                return Err(Malformed::Value(kind, "kind of workload"));
            }
        };
        let phase = match proto::WorkloadPhase::try_from(phase) {
            Ok(proto::WorkloadPhase::Running | proto::WorkloadPhase::Unspecified) => Phase::Running,
            Ok(proto::WorkloadPhase::Pending) => Phase::Pending,
            Ok(proto::WorkloadPhase::Terminating) => Phase::Terminating,
            Err(_) => return Err(Malformed::Value(phase, "phase")),
        };
        Ok(Self {
            kind: kind.name(),
            namespace,
            name,
            ips: ips.iter().map(|ip| address(ip)).collect::<Result<_, _>>()?,
            ports: ports
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            host_ports: host_ports
                .into_iter()
                .map(TryInto::try_into)
                .collect::<Result<_, _>>()?,
            node,
            phase: phase.name(),
            ready,
            owner: owner.map(|proto::WorkloadOwner { kind, name }| format!("{kind}/{name}")),
            opaque_ports: opaque_ports.map(|proto::PortRanges { list }| list),
            policy_opaque_ports: ranges(policy_opaque_ports),
            mesh: mesh.map(TryInto::try_into).transpose()?,
        })
    }
}

impl TryFrom<proto::Mesh> for Mesh {
    type Error = Malformed;

    fn try_from(message: proto::Mesh) -> Result<Self, Malformed> {
        let proto::Mesh {
            service_account,
            control_plane,
            uri,
            server_name,
            inbound_port,
            skipped_ports,
        } = message;
        Ok(Self {
            service_account,
            control_plane,
            uri,
            server_name,
            inbound_port: port(inbound_port)?,
            skipped_ports: ranges(skipped_ports),
        })
    }
}

fn ranges(message: Option<proto::PortRanges>) -> Vec<String> {
    message.map_or_else(Vec::new, |proto::PortRanges { list }| list)
}

impl TryFrom<proto::WorkloadPort> for WorkloadPort {
    type Error = Malformed;

    fn try_from(message: proto::WorkloadPort) -> Result<Self, Malformed> {
        let proto::WorkloadPort {
            name,
            port: number,
            protocol,
        } = message;
        Ok(Self {
            name,
            port: port(number)?,
            protocol: protocol.try_into()?,
        })
    }
}

impl TryFrom<proto::HostPort> for HostPort {
    type Error = Malformed;

    fn try_from(message: proto::HostPort) -> Result<Self, Malformed> {
        let proto::HostPort {
            ip,
            port: number,
            protocol,
        } = message;
        Ok(Self {
            ip: address(&ip)?,
            port: port(number)?,
            protocol: protocol.try_into()?,
        })
    }
}
