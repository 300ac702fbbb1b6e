//! A workload as it comes in.

use crate::{
    protocol::Protocol,
    unchecked::{choice::Choice, text::Text},
    workload::{Phase, WorkloadKind},
};

/// A workload's identity.
#[derive(Debug)]
pub struct WorkloadId<'a> {
    /// Its kind.
    pub kind: Choice<'a, WorkloadKind>,
    /// The namespace.
    pub namespace: Text<'a>,
    /// The name within the namespace.
    pub name: Text<'a>,
}

/// A workload.
#[derive(Debug)]
pub struct Workload<'a> {
    /// Its identity.
    pub id: WorkloadId<'a>,
    /// Its own addresses.
    pub ips: Vec<Text<'a>>,
    /// The ports that it declares.
    pub ports: Vec<WorkloadPort<'a>>,
    /// Its ports at addresses of its node.
    pub host_ports: Vec<HostPort<'a>>,
    /// The node that it runs on.
    pub node: Option<Text<'a>>,
    /// Phase of its life; `None`: it runs.
    pub phase: Option<Choice<'a, Phase>>,
    /// True if it takes connections; `None`: not given.
    pub ready: Option<bool>,
    /// The object that made it.
    pub owner: Option<WorkloadOwner<'a>>,
    /// Ports, or ranges of them; `None`: not given.
    pub opaque_ports: Option<Vec<Text<'a>>>,
    /// More ports, or ranges of them.
    pub policy_opaque_ports: Vec<Text<'a>>,
    /// Its proxy in a mesh.
    pub mesh: Option<Mesh<'a>>,
}

/// The proxy of a workload in a mesh.
#[derive(Debug)]
pub struct Mesh<'a> {
    /// The service account of a pod.
    pub service_account: Option<Text<'a>>,
    /// The namespace of its control plane.
    pub control_plane: Option<Text<'a>>,
    /// The identity of a machine.
    pub uri: Option<Text<'a>>,
    /// Its name in TLS.
    pub server_name: Option<Text<'a>>,
    /// The port where the proxy takes connections.
    pub inbound_port: u16,
    /// Ports, or ranges of them, that do not pass through the proxy.
    pub skipped_ports: Vec<Text<'a>>,
}

/// A port that a workload declares.
#[derive(Debug)]
pub struct WorkloadPort<'a> {
    /// Its name; empty if it has none.
    pub name: Text<'a>,
    /// The port.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Choice<'a, Protocol>,
}

/// A port where a workload answers at an address of its node.
#[derive(Debug)]
pub struct HostPort<'a> {
    /// The node's address.
    pub ip: Text<'a>,
    /// The port there.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Choice<'a, Protocol>,
}

/// The object that made a workload.
#[derive(Debug)]
pub struct WorkloadOwner<'a> {
    /// Its kind.
    pub kind: Text<'a>,
    /// Its name.
    pub name: Text<'a>,
}
