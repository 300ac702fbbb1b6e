//! What the controller of workloads has to be told.

pub use crate::controllers::workloads::{allowed::RangeOptions, probes::places::ProbeLimits};

/// Which ExternalWorkloads are made endpoints of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkloadOptions {
    /// Those of our own group, `workload.shunt.io`.
    pub shunt: bool,
    /// Those of linkerd's group, `workload.linkerd.io`.
    pub linkerd: bool,
    /// True if the Services of `kube-system` are handled as all others are.
    pub in_kube_system: bool,
    /// Which of them are looked at.
    pub probes: ProbeOptions,
    /// The addresses that they may have.
    pub ranges: RangeOptions,
}

/// Of which workloads it is found out whether they take connections, if they ask for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProbeOptions {
    /// Those of our own group.
    pub shunt: bool,
    /// Those of linkerd's group.
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
