//! How the source is that follows Consul.

use serde::Serialize;

use crate::{proto, view::source::Untranslated};

/// A source that follows Consul. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Consul {
    /// Where Consul's agent is.
    pub address: String,
    /// Its datacenter, once it has said it.
    pub datacenter: Option<String>,
    /// Our node there, once it is known.
    pub node: Option<String>,
    /// Whether two queries give hints for all services, in place of one each.
    pub hints: bool,
    /// Queries that are followed.
    pub watches: u64,
    /// Those of them that are not up to date, sorted by service.
    pub stale: Vec<StaleWatch>,
    /// Whether all was there once, so that the datapath follows it.
    pub synced: bool,
    /// How long ago something of the catalog changed.
    pub last_change_seconds_ago: Option<u64>,
    /// Frontends that are configured.
    pub frontends: u64,
    /// Instances that are known.
    pub instances: u64,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// For how long the oldest of these changes has waited.
    pub lag_milliseconds: Option<u64>,
    /// What the token lacks, sorted.
    pub missing_rights: Vec<String>,
    /// What is left out of each service, sorted by its name.
    pub skipped: Vec<Untranslated>,
}

/// A query that is not up to date: what it said last stays.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StaleWatch {
    /// What it asks for.
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
        }
    }
}
