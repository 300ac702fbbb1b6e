//! Workloads at addresses that are no service's: pods, and machines outside the cluster.

use std::{fmt, net::IpAddr, num::NonZeroU16, sync::Arc};

use crate::{named::FromName, protocol::Protocol};

/// Something that runs, and the addresses that it answers at. No packet is translated for it: it is
/// known so that a lookup can return the owner of an address.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Workload {
    /// Its identity.
    pub id: Arc<WorkloadId>,
    /// Its own addresses, each once. A pod in its node's network has none.
    pub ips: Box<[IpAddr]>,
    /// The ports that it declares. A pod answers at others, too; of another workload nothing is
    /// known but these.
    pub ports: Box<[WorkloadPort]>,
    /// Its ports at addresses of its node.
    pub host_ports: Box<[HostPort]>,
    /// The node that it runs on.
    pub node: Option<Arc<str>>,
    /// Phase of its life.
    pub phase: Phase,
    /// True if it takes connections; `None`: not given.
    pub ready: Option<bool>,
    /// The object that made it.
    pub owner: Option<WorkloadOwner>,
    /// The ports whose protocol proxies are not to look into; `None`: not given.
    pub opaque_ports: Option<Box<[PortRange]>>,
    /// More of these ports, whether `opaque_ports` are given or not.
    pub policy_opaque_ports: Box<[PortRange]>,
    /// Its proxy, if it is part of a mesh.
    pub mesh: Option<Box<Mesh>>,
}

/// The proxy of a workload in a mesh, which other proxies connect to.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mesh {
    /// The identity that the proxy proves.
    pub identity: MeshIdentity,
    /// The port where the proxy takes connections for any port of the workload.
    pub inbound_port: NonZeroU16,
    /// Ports whose connections do not pass through the proxy.
    pub skipped_ports: Box<[PortRange]>,
}

/// The identity of a proxy.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum MeshIdentity {
    /// The service account of a pod.
    ServiceAccount {
        /// The name in the pod's namespace, not empty.
        name: Arc<str>,
        /// The namespace of the control plane that the proxy belongs to, not empty.
        control_plane: Arc<str>,
    },
    /// The identity of a machine, such as `spiffe://root.linkerd.cluster.local/vm`.
    Uri {
        /// The URI, not empty.
        uri: Arc<str>,
        /// The name that clients give in TLS (SNI), not empty.
        server_name: Arc<str>,
    },
}

/// The identity of a workload: shown as `Pod namespace/name`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadId {
    /// Its kind.
    pub kind: WorkloadKind,
    /// The namespace, not empty.
    pub namespace: Box<str>,
    /// The name within the namespace, not empty.
    pub name: Box<str>,
}

impl fmt::Display for WorkloadId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            kind,
            namespace,
            name,
        } = self;
        write!(f, "{} {namespace}/{name}", kind.name())
    }
}

/// The kind of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WorkloadKind {
    /// A pod. Its addresses are its own at every port.
    Pod,
    /// A machine outside the cluster. Its addresses are its own at the ports that it declares.
    ExternalWorkload,
}

impl WorkloadKind {
    /// The name as it is written and shown: `Pod`, `ExternalWorkload`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pod => "Pod",
            Self::ExternalWorkload => "ExternalWorkload",
        }
    }
}

impl FromName for WorkloadKind {
    const EXPECTED: &'static str = "`Pod` or `ExternalWorkload`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::Pod, Self::ExternalWorkload]
            .into_iter()
            .find(|kind| kind.name() == name)
    }
}

/// Phase of a workload's life. Ordered: of two that have one address, it is that of the first. One
/// that has ended has no address any more, and is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Phase {
    /// It runs.
    #[default]
    Running,
    /// It does not run yet.
    Pending,
    /// It is on its way out.
    Terminating,
}

impl Phase {
    /// The name as it is written and shown: `Running`, `Pending`, `Terminating`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Running => "Running",
            Self::Pending => "Pending",
            Self::Terminating => "Terminating",
        }
    }
}

impl FromName for Phase {
    const EXPECTED: &'static str = "`Running`, `Pending` or `Terminating`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::Running, Self::Pending, Self::Terminating]
            .into_iter()
            .find(|phase| phase.name() == name)
    }
}

/// A port that a workload declares.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkloadPort {
    /// Its name; empty if it has none.
    pub name: Arc<str>,
    /// The port on the workload's addresses.
    pub port: NonZeroU16,
    /// The transport protocol.
    pub protocol: Protocol,
}

/// A port where a workload answers at an address of its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostPort {
    /// The node's address.
    pub ip: IpAddr,
    /// The port there.
    pub port: NonZeroU16,
    /// The transport protocol.
    pub protocol: Protocol,
}

/// The object that made a workload, by its kind and name in the workload's namespace.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct WorkloadOwner {
    /// `ReplicaSet`, for example.
    pub kind: Arc<str>,
    /// Its name.
    pub name: Arc<str>,
}

/// Ports from the first to the last, both among them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortRange {
    /// The first.
    pub first: u16,
    /// The last, not below the first.
    pub last: u16,
}

impl PortRange {
    /// Returns whether the port is one of these.
    pub const fn contains(self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// `443`, or `3306-3310`.
impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { first, last } = self;
        if first == last {
            write!(f, "{first}")
        } else {
            write!(f, "{first}-{last}")
        }
    }
}

/// A change of what is known of workloads. Each identity is in one of the two lists, once.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct WorkloadUpdate {
    /// Workloads that are new, or in their new form.
    pub workloads: Vec<Arc<Workload>>,
    /// Workloads that are gone; they may be unknown.
    pub gone: Vec<WorkloadId>,
}
