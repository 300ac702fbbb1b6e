//! The known state of other datacenters without Consul.

use serde::Serialize;

use crate::{
    proto,
    view::consul::{FailedOver, Gateway},
};

/// The known state of other datacenters without Consul. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Federation {
    /// The own datacenter.
    pub datacenter: String,
    /// The one that keeps the gateways of all.
    pub primary: String,
    /// True if the last copy from there is up to date; always in the primary.
    pub up_to_date: bool,
    /// For how long it is so, in seconds.
    pub since_seconds_ago: u64,
    /// Fault at present, in words.
    pub trouble: Option<String>,
    /// Number of changes.
    pub index: u64,
    /// Number of copies and notifications that failed since the agent's start.
    pub failures: u64,
    /// The gateways of all datacenters, and where they are known from, sorted.
    pub gateways: Vec<Gateway>,
    /// Services whose new connections go to another datacenter, sorted.
    pub failed_over: Vec<FailedOver>,
}

impl From<Federation> for proto::Federation {
    fn from(value: Federation) -> Self {
        let Federation {
            datacenter,
            primary,
            up_to_date,
            since_seconds_ago,
            trouble,
            index,
            failures,
            gateways,
            failed_over,
        } = value;
        Self {
            datacenter,
            primary,
            up_to_date,
            since_seconds_ago,
            trouble,
            index,
            failures,
            gateways: gateways.into_iter().map(Into::into).collect(),
            failed_over: failed_over.into_iter().map(Into::into).collect(),
        }
    }
}

impl From<proto::Federation> for Federation {
    fn from(message: proto::Federation) -> Self {
        let proto::Federation {
            datacenter,
            primary,
            up_to_date,
            since_seconds_ago,
            trouble,
            index,
            failures,
            gateways,
            failed_over,
        } = message;
        Self {
            datacenter,
            primary,
            up_to_date,
            since_seconds_ago,
            trouble,
            index,
            failures,
            gateways: gateways.into_iter().map(Into::into).collect(),
            failed_over: failed_over.into_iter().map(Into::into).collect(),
        }
    }
}
