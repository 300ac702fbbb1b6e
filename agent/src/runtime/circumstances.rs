//! What a cluster's source says with an event.

use std::time::SystemTime;

use shunt_model::Service;

use crate::runtime::{health_checks::HealthCheckChange, ip_family::IpFamily};

/// What comes with an event and takes effect with it. An event of a source that knows no cluster
/// comes with nothing ([`Default`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// The changes of endpoints that the event carries, as far as it is known when they were made.
    pub triggers: Vec<Trigger>,
    /// The health checks that follow from the same state of the cluster. One that fails from here
    /// on does so before the event is applied, one that succeeds does so after it has been, and not
    /// at all if the event is refused.
    pub health_checks: HealthCheckChange,
    /// True if the event is one of many, of whose success the log says something only if it is asked
    /// for details (`debug`).
    pub routine: bool,
    /// Services without endpoints, of which the source knows nothing yet but their addresses. With the first Resync,
    /// those have the endpoints that an earlier agent left in the kernel; where it left none there is no service.
    pub undecided: Vec<Service>,
}

/// When an endpoint was changed: the annotation `endpoints.kubernetes.io/last-change-trigger-time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trigger {
    /// The family of the slice.
    pub family: IpFamily,
    /// When.
    pub at: SystemTime,
}
