//! The origin of a frontend's connections, as far as that decides on the backends that take them.

use crate::policy::TrafficPolicy;

/// The set of a port that a frontend selects from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reach {
    /// The Cluster set.
    Cluster,
    /// The Local set: nothing but what is here is known.
    Local,
    /// The part of the Cluster set that is here, for packets for which another node has chosen this
    /// one.
    Here,
}

impl Reach {
    /// The set of this traffic policy.
    pub(super) const fn of(policy: TrafficPolicy) -> Self {
        match policy {
            TrafficPolicy::Cluster => Self::Cluster,
            TrafficPolicy::Local => Self::Local,
        }
    }

    /// The traffic policy whose set it is where nothing is split.
    pub(super) const fn policy(self) -> TrafficPolicy {
        match self {
            Self::Cluster => TrafficPolicy::Cluster,
            Self::Local | Self::Here => TrafficPolicy::Local,
        }
    }
}
