//! Counts of each service port, for display.

use std::sync::Arc;

use shunt_api::view::{ServiceCounters, ServiceTraffic};
use shunt_datapath::{CountedService, ServiceCounts, Services, TrafficCounts};
use shunt_model::{BackendSet, ServiceId};

use crate::error::InspectError;

/// A service port, and what was counted of it.
#[derive(Debug, Clone)]
pub struct ServiceFigures {
    /// The service.
    pub service: Arc<ServiceId>,
    /// The name of its port.
    pub port: Arc<str>,
    /// All its frontends together.
    pub counters: ServiceCounters,
}

/// Reads what was counted, sorted by name.
pub(super) fn read(services: &Services) -> Result<Vec<ServiceFigures>, InspectError> {
    let counted = services
        .read()
        .map_err(|error| InspectError::Counters(error.into()))?;
    Ok(counted.into_iter().map(figures).collect())
}

/// Reads what was counted of the service port that owns `set`; `None` if it is not counted.
pub(super) fn counters_of(
    services: &Services,
    set: &BackendSet,
) -> Result<Option<ServiceCounters>, InspectError> {
    let counts = services.counts_of(set);
    let counts = counts.map_err(|error| InspectError::Counters(error.into()))?;
    Ok(counts.map(counters))
}

fn figures(counted: CountedService) -> ServiceFigures {
    let CountedService {
        service,
        port,
        counts,
    } = counted;
    ServiceFigures {
        service,
        port,
        counters: counters(counts),
    }
}

fn counters(counts: ServiceCounts) -> ServiceCounters {
    let ServiceCounts {
        connections,
        refused,
        traffic,
    } = counts;
    let refused = refused.into_iter();
    let refused = refused.map(|(counter, count)| (counter.name().to_owned(), count));
    ServiceCounters {
        connections,
        refused: refused.collect(),
        traffic: traffic.map(shown),
    }
}

const fn shown(traffic: TrafficCounts) -> ServiceTraffic {
    let TrafficCounts {
        request_packets,
        request_bytes,
        reply_packets,
        reply_bytes,
    } = traffic;
    ServiceTraffic {
        request_packets,
        request_bytes,
        reply_packets,
        reply_bytes,
    }
}
