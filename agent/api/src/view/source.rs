//! State of the source that follows a cluster.

use std::net::IpAddr;

use serde::Serialize;

use crate::{
    proto,
    view::error::{Malformed, address},
};

/// A source that follows a cluster's API server. The order of the fields is the order in JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Source {
    /// Name of the place that its events come from, for people.
    pub name: String,
    /// True if everything that it follows is up to date.
    pub connected: bool,
    /// For how long it is, or is not.
    pub since_seconds_ago: u64,
    /// Why it is not.
    pub trouble: Option<String>,
    /// True if all was there once, so that the datapath follows it.
    pub synced: bool,
    /// Time since the server reported a change.
    pub last_event_seconds_ago: Option<u64>,
    /// Time since something was last listed anew.
    pub last_relist_seconds_ago: Option<u64>,
    /// Number of times that something was listed.
    pub relists: u64,
    /// Services that are known.
    pub services: u64,
    /// EndpointSlices that are known.
    pub endpoint_slices: u64,
    /// Endpoints that are known.
    pub endpoints: u64,
    /// Nodes that are known.
    pub nodes: u64,
    /// The ranges that cluster IPs are taken from.
    pub service_cidrs: Vec<String>,
    /// Services whose last change is not in the kernel yet.
    pub pending: u64,
    /// For how long the oldest of these changes has waited.
    pub lag_milliseconds: Option<u64>,
    /// This node.
    pub node: SourceNode,
    /// Parts of each service that are not translated, sorted by its name.
    pub untranslated: Vec<Untranslated>,
    /// Number of objects that cannot be read. The known state of each stays.
    pub unreadable: u64,
    /// The first of each kind, sorted by name.
    pub first_unreadable: Vec<UnreadableObject>,
}

/// This node, as a cluster knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SourceNode {
    /// Its name.
    pub name: String,
    /// True if the cluster has a node of this name.
    pub found: bool,
    /// Its zone.
    pub zone: Option<String>,
    /// Its primary addresses, at most one of each family.
    pub addresses: Vec<IpAddr>,
}

/// A service of which something is not translated.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Untranslated {
    /// The service, `namespace/name`.
    pub service: String,
    /// Parts that are not translated, and why.
    pub reasons: Vec<String>,
}

/// An object that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnreadableObject {
    /// Its kind and name.
    pub object: String,
    /// The field, and what is wrong with it.
    pub reason: String,
}

impl From<Source> for proto::Source {
    fn from(source: Source) -> Self {
        let Source {
            name,
            connected,
            since_seconds_ago,
            trouble,
            synced,
            last_event_seconds_ago,
            last_relist_seconds_ago,
            relists,
            services,
            endpoint_slices,
            endpoints,
            nodes,
            service_cidrs,
            pending,
            lag_milliseconds,
            node,
            untranslated,
            unreadable,
            first_unreadable,
        } = source;
        let SourceNode {
            name: node_name,
            found,
            zone,
            addresses,
        } = node;
        Self {
            name,
            connected,
            since_seconds_ago,
            trouble,
            synced,
            last_event_seconds_ago,
            last_relist_seconds_ago,
            relists,
            services,
            endpoint_slices,
            endpoints,
            nodes,
            service_cidrs,
            pending,
            lag_milliseconds,
            node: Some(proto::SourceNode {
                name: node_name,
                found,
                zone,
                addresses: addresses.iter().map(ToString::to_string).collect(),
            }),
            untranslated: untranslated
                .into_iter()
                .map(|Untranslated { service, reasons }| proto::Untranslated { service, reasons })
                .collect(),
            unreadable,
            first_unreadable: first_unreadable
                .into_iter()
                .map(
                    |UnreadableObject { object, reason }| proto::UnreadableObject {
                        object,
                        reason,
                    },
                )
                .collect(),
        }
    }
}

impl TryFrom<proto::Source> for Source {
    type Error = Malformed;

    fn try_from(message: proto::Source) -> Result<Self, Malformed> {
        let proto::Source {
            name,
            connected,
            since_seconds_ago,
            trouble,
            synced,
            last_event_seconds_ago,
            last_relist_seconds_ago,
            relists,
            services,
            endpoint_slices,
            endpoints,
            nodes,
            service_cidrs,
            pending,
            lag_milliseconds,
            node,
            untranslated,
            unreadable,
            first_unreadable,
        } = message;
        let proto::SourceNode {
            name: node_name,
            found,
            zone,
            addresses,
        } = node.ok_or(Malformed::Missing("node"))?;
        let addresses: Result<Vec<IpAddr>, Malformed> =
            addresses.iter().map(|text| address(text)).collect();
        Ok(Self {
            name,
            connected,
            since_seconds_ago,
            trouble,
            synced,
            last_event_seconds_ago,
            last_relist_seconds_ago,
            relists,
            services,
            endpoint_slices,
            endpoints,
            nodes,
            service_cidrs,
            pending,
            lag_milliseconds,
            node: SourceNode {
                name: node_name,
                found,
                zone,
                addresses: addresses?,
            },
            untranslated: untranslated
                .into_iter()
                .map(|proto::Untranslated { service, reasons }| Untranslated { service, reasons })
                .collect(),
            unreadable,
            first_unreadable: first_unreadable
                .into_iter()
                .map(
                    |proto::UnreadableObject { object, reason }| UnreadableObject {
                        object,
                        reason,
                    },
                )
                .collect(),
        })
    }
}
