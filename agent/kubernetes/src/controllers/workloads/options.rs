//! Options of the controller of workloads.

use crate::controllers::workloads::{allowed::RangeOptions, probes::places::ProbeLimits};

/// ExternalWorkloads of which endpoints are made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadOptions {
    /// ExternalWorkloads of our own group, `workload.shunt.io`.
    pub shunt: bool,
    /// ExternalWorkloads of linkerd's group, `workload.linkerd.io`.
    pub linkerd: bool,
    /// True if the Services of `kube-system` are handled as all others are.
    pub in_kube_system: bool,
    /// Workloads that are looked at.
    pub probes: ProbeOptions,
    /// The addresses that they may have.
    pub ranges: RangeOptions,
}

/// Of which workloads it is found out whether they take connections, if they ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeOptions {
    /// Workloads of our own group.
    pub shunt: bool,
    /// Workloads of linkerd's group.
    pub linkerd: bool,
    /// The most probes under way at once.
    pub limits: ProbeLimits,
}

impl WorkloadOptions {
    /// Returns whether anything is to be done at all.
    pub const fn is_on(&self) -> bool {
        self.shunt || self.linkerd
    }
}
