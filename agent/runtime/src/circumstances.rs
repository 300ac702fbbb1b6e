//! Data of a cluster's source that come with an event.

use std::time::SystemTime;

use shunt_model::Service;

use crate::{health_checks::HealthCheckChange, ip_family::IpFamily};

/// Data that come with an event and take effect with it. An event of a source that knows no cluster
/// comes with nothing ([`Default`]).
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Circumstances {
    /// The changes of endpoints that the event carries, as far as it is known when they were made.
    pub triggers: Vec<Trigger>,
    /// The health checks that follow from the same state of the cluster. One that fails from here
    /// on does so before the event is applied, one that succeeds does so after it has been, and not
    /// at all if the event is refused.
    pub health_checks: HealthCheckChange,
    /// True if the event is one of many, whose success is logged only at the level
    /// `debug`.
    pub routine: bool,
    /// Services without endpoints, of which the source knows nothing yet but their addresses. With the first Resync,
    /// those have the endpoints that an earlier agent left in the kernel; where it left none there is no service.
    pub undecided: Vec<Service>,
}

/// Time of a change to an endpoint: the annotation `endpoints.kubernetes.io/last-change-trigger-time`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trigger {
    /// The family of the slice.
    pub family: IpFamily,
    /// Time of the change.
    pub at: SystemTime,
}
