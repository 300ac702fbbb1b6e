//! State of the source that follows Consul.

use serde::Serialize;

use crate::{proto, view::source::Untranslated};

/// A source that follows Consul. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Consul {
    /// Address of Consul's agent.
    pub address: String,
    /// Its datacenter, once the agent has reported it.
    pub datacenter: Option<String>,
    /// Our node there, once it is known.
    pub node: Option<String>,
    /// True if two queries give hints for all services, in place of one each.
    pub hints: bool,
    /// Queries that are followed.
    pub watches: u64,
    /// Queries that are not up to date, sorted by service.
    pub stale: Vec<StaleWatch>,
    /// True if all was there once, so that the datapath follows it.
    pub synced: bool,
    /// Time since something of the catalog changed.
    pub last_change_seconds_ago: Option<u64>,
    /// Frontends that are configured.
    pub frontends: u64,
    /// Instances that are known.
    pub instances: u64,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// For how long the oldest of these changes has waited.
    pub lag_milliseconds: Option<u64>,
    /// Rights that the token lacks, sorted.
    pub missing_rights: Vec<String>,
    /// Parts of each service that are left out, sorted by its name.
    pub skipped: Vec<Untranslated>,
    /// Services whose new connections go to another datacenter than the one that is wanted most, sorted.
    pub failed_over: Vec<FailedOver>,
    /// The gateways of other datacenters that are known, sorted.
    pub gateways: Vec<Gateway>,
}

/// A service whose new connections go to another datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FailedOver {
    /// As `namespace/name`.
    pub service: String,
    /// Datacenter that they go to.
    pub datacenter: String,
}

/// A gateway of another datacenter.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Gateway {
    /// Its datacenter.
    pub datacenter: String,
    /// Its node there.
    pub node: String,
    /// Its id there.
    pub id: String,
    /// True if it may have new connections, by its own checks.
    pub usable: bool,
    /// Origin of the entry: Consul's federation state, or the catalog of its datacenter.
    pub origin: String,
}

/// A query that is not up to date: its last answer stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StaleWatch {
    /// Service that it queries.
    pub service: String,
    /// For how long it is not.
    pub since_seconds_ago: u64,
    /// Why.
    pub reason: String,
}

impl From<Consul> for proto::Consul {
    fn from(consul: Consul) -> Self {
        let Consul {
            address,
            datacenter,
            node,
            hints,
            watches,
            stale,
            synced,
            last_change_seconds_ago,
            frontends,
            instances,
            pending,
            lag_milliseconds,
            missing_rights,
            skipped,
            failed_over,
            gateways,
        } = consul;
        let stale = stale.into_iter();
        let skipped = skipped.into_iter();
        Self {
            address,
            datacenter,
            node,
            hints,
            watches,
            stale: stale
                .map(
                    |StaleWatch {
                         service,
                         since_seconds_ago,
                         reason,
                     }| proto::StaleWatch {
                        service,
                        since_seconds_ago,
                        reason,
                    },
                )
                .collect(),
            synced,
            last_change_seconds_ago,
            frontends,
            instances,
            pending,
            lag_milliseconds,
            missing_rights,
            skipped: skipped
                .map(|Untranslated { service, reasons }| proto::Untranslated { service, reasons })
                .collect(),
            failed_over: failed_over.into_iter().map(Into::into).collect(),
            gateways: gateways.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<proto::Consul> for Consul {
    fn from(message: proto::Consul) -> Self {
        let proto::Consul {
            address,
            datacenter,
            node,
            hints,
            watches,
            stale,
            synced,
            last_change_seconds_ago,
            frontends,
            instances,
            pending,
            lag_milliseconds,
            missing_rights,
            skipped,
            failed_over,
            gateways,
        } = message;
        let stale = stale.into_iter();
        let skipped = skipped.into_iter();
        Self {
            address,
            datacenter,
            node,
            hints,
            watches,
            stale: stale
                .map(
                    |proto::StaleWatch {
                         service,
                         since_seconds_ago,
                         reason,
                     }| StaleWatch {
                        service,
                        since_seconds_ago,
                        reason,
                    },
                )
                .collect(),
            synced,
            last_change_seconds_ago,
            frontends,
            instances,
            pending,
            lag_milliseconds,
            missing_rights,
            skipped: skipped
                .map(|proto::Untranslated { service, reasons }| Untranslated { service, reasons })
                .collect(),
            failed_over: failed_over.into_iter().map(Into::into).collect(),
            gateways: gateways.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<FailedOver> for proto::FailedOver {
    fn from(value: FailedOver) -> Self {
        let FailedOver {
            service,
            datacenter,
        } = value;
        Self {
            service,
            datacenter,
        }
    }
}

impl From<proto::FailedOver> for FailedOver {
    fn from(value: proto::FailedOver) -> Self {
        let proto::FailedOver {
            service,
            datacenter,
        } = value;
        Self {
            service,
            datacenter,
        }
    }
}

impl From<Gateway> for proto::Gateway {
    fn from(value: Gateway) -> Self {
        let Gateway {
            datacenter,
            node,
            id,
            usable,
            origin,
        } = value;
        Self {
            datacenter,
            node,
            id,
            usable,
            origin,
        }
    }
}

impl From<proto::Gateway> for Gateway {
    fn from(value: proto::Gateway) -> Self {
        let proto::Gateway {
            datacenter,
            node,
            id,
            usable,
            origin,
        } = value;
        Self {
            datacenter,
            node,
            id,
            usable,
            origin,
        }
    }
}
