//! A workload as it comes in.

use crate::{
    protocol::Protocol,
    unchecked::{choice::Choice, text::Text},
    workload::{Phase, WorkloadKind},
};

/// A workload's identity.
#[derive(Debug)]
pub struct WorkloadId<'a> {
    /// What it is.
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
    /// Where it answers at addresses of its node.
    pub host_ports: Vec<HostPort<'a>>,
    /// The node that it runs on.
    pub node: Option<Text<'a>>,
    /// How far its life has got; `None`: it runs.
    pub phase: Option<Choice<'a, Phase>>,
    /// Whether it takes connections, where that is said.
    pub ready: Option<bool>,
    /// What made it.
    pub owner: Option<WorkloadOwner<'a>>,
    /// Ports, or ranges of them; `None`: it does not say.
    pub opaque_ports: Option<Vec<Text<'a>>>,
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

/// Where a workload answers at an address of its node.
#[derive(Debug)]
pub struct HostPort<'a> {
    /// The node's address.
    pub ip: Text<'a>,
    /// The port there.
    pub port: u16,
    /// The transport protocol.
    pub protocol: Choice<'a, Protocol>,
}

/// What made a workload.
#[derive(Debug)]
pub struct WorkloadOwner<'a> {
    /// Its kind.
    pub kind: Text<'a>,
    /// Its name.
    pub name: Text<'a>,
}
