//! Counters of a service port.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::proto::{self, CounterValue};

/// Counters of a service port, of all its frontends together.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ServiceCounters {
    /// Connections that chose a backend.
    pub connections: u64,
    /// Packets and system calls that were rejected or dropped, by the counter's name; those that there were.
    pub refused: BTreeMap<String, u64>,
    /// Packets and bytes, if the agent counts them.
    #[serde(flatten)]
    pub traffic: Option<ServiceTraffic>,
}

/// The packets of a service port's connections, and their bytes from the IP header on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct ServiceTraffic {
    /// Of clients.
    pub request_packets: u64,
    /// Of clients.
    pub request_bytes: u64,
    /// Of backends.
    pub reply_packets: u64,
    /// Of backends.
    pub reply_bytes: u64,
}

impl ServiceCounters {
    /// Returns the number of refusals for reasons whose names begin so.
    pub fn refused_as(&self, prefix: &str) -> u64 {
        let refused = self.refused.iter();
        refused
            .filter(|(reason, _)| reason.starts_with(prefix))
            .map(|(_, count)| count)
            .sum()
    }
}

impl From<ServiceCounters> for proto::ServiceCounters {
    fn from(counters: ServiceCounters) -> Self {
        let ServiceCounters {
            connections,
            refused,
            traffic,
        } = counters;
        Self {
            connections,
            refused: refused
                .into_iter()
                .map(|(name, packets)| CounterValue { name, packets })
                .collect(),
            traffic: traffic.map(Into::into),
        }
    }
}

impl From<proto::ServiceCounters> for ServiceCounters {
    fn from(counters: proto::ServiceCounters) -> Self {
        let proto::ServiceCounters {
            connections,
            refused,
            traffic,
        } = counters;
        Self {
            connections,
            refused: refused
                .into_iter()
                .map(|CounterValue { name, packets }| (name, packets))
                .collect(),
            traffic: traffic.map(Into::into),
        }
    }
}

impl From<ServiceTraffic> for proto::ServiceTraffic {
    fn from(traffic: ServiceTraffic) -> Self {
        let ServiceTraffic {
            request_packets,
            request_bytes,
            reply_packets,
            reply_bytes,
        } = traffic;
        Self {
            request_packets,
            request_bytes,
            reply_packets,
            reply_bytes,
        }
    }
}

impl From<proto::ServiceTraffic> for ServiceTraffic {
    fn from(traffic: proto::ServiceTraffic) -> Self {
        let proto::ServiceTraffic {
            request_packets,
            request_bytes,
            reply_packets,
            reply_bytes,
        } = traffic;
        Self {
            request_packets,
            request_bytes,
            reply_packets,
            reply_bytes,
        }
    }
}
