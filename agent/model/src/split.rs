//! Division of a service port's new connections among several services.

use std::{fmt, net::IpAddr, num::NonZeroU16, sync::Arc};

use crate::{named::FromName, service_id::ServiceId};

/// A weighted split of a service port's new connections.
///
/// A connection has two choices made for it: one of the backends by its weight, then an endpoint of
/// that backend by the endpoint's weight. How many endpoints a backend has does not count.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Split {
    /// Treatment of the share of a backend that cannot be used.
    pub mode: SplitMode,
    /// The frontends of the port that it is for.
    pub frontends: SplitFrontends,
    /// In declared order. One that is listed twice counts twice. The sum of the weights fits a u32.
    pub backends: Vec<SplitBackend>,
}

/// Treatment of the share of a backend that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SplitMode {
    /// The other backends take it, each in proportion to its weight (linkerd).
    Available,
    /// It is refused: so many new connections get an error at once (Gateway API).
    Strict,
    /// There are no shares: the first backend that can be used takes all. One of weight 0 is
    /// passed over.
    First,
}

/// The frontends of its port that a split is for. The others select among the port's own endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum SplitFrontends {
    /// All of them.
    #[default]
    All,
    /// Frontends on ClusterIPs alone (Gateway API, GAMMA).
    ClusterIp,
}

/// One backend of a split.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SplitBackend {
    /// The target of its connections.
    pub target: SplitTarget,
    /// Its share is weight / sum of weights; 0 receives nothing, whatever the others can do.
    pub weight: u32,
}

/// The target behind a backend of a split.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SplitTarget {
    /// The endpoints of a service's port, and never that port's own split. The service may be the
    /// one that has the split, and may not exist.
    Service {
        /// The service.
        id: Arc<ServiceId>,
        /// The service's port, in host byte order, of the split port's protocol.
        port: u16,
    },
    /// A single address.
    Address {
        /// The address. A frontend of the other family cannot use it.
        ip: IpAddr,
        /// The port in host byte order.
        port: NonZeroU16,
    },
    /// Nothing: a backend that can never be used, whose share counts all the same.
    Invalid {
        /// The reason, for display with the split.
        reason: Arc<str>,
    },
}

impl SplitMode {
    /// The name as it is written: `available`, `strict`, `first`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Available => "available",
            Self::Strict => "strict",
            Self::First => "first",
        }
    }
}

impl fmt::Display for SplitMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromName for SplitMode {
    const EXPECTED: &'static str = "`available`, `strict` or `first`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::Available, Self::Strict, Self::First]
            .into_iter()
            .find(|mode| mode.name() == name)
    }
}

impl SplitFrontends {
    /// The name as it is written: `all`, `cluster_ip`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::ClusterIp => "cluster_ip",
        }
    }
}

impl FromName for SplitFrontends {
    const EXPECTED: &'static str = "`all` or `cluster_ip`";

    fn from_name(name: &str) -> Option<Self> {
        [Self::All, Self::ClusterIp]
            .into_iter()
            .find(|frontends| frontends.name() == name)
    }
}
