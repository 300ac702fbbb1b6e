//! Counts of each service port, for display.

use std::{collections::HashMap, sync::Arc};

use shunt_api::view::{ServiceCounters, ServiceTraffic};
use shunt_datapath::{CountedService, ServiceCounts, Services, TrafficCounts};
use shunt_model::ServiceId;

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

/// Name of a service port: `namespace/name`, and the port's name.
pub(super) type PortName = (String, String);

/// Reads what was counted, sorted by name.
pub(super) fn read(services: &Services) -> Result<Vec<ServiceFigures>, InspectError> {
    let counted = services
        .read()
        .map_err(|error| InspectError::Counters(error.into()))?;
    Ok(counted.into_iter().map(figures).collect())
}

/// The same by service port.
pub(super) fn by_name(
    services: &Services,
) -> Result<HashMap<PortName, ServiceCounters>, InspectError> {
    let figures = read(services)?.into_iter();
    Ok(figures
        .map(|figures| {
            let ServiceFigures {
                service,
                port,
                counters,
            } = figures;
            ((service.to_string(), port.to_string()), counters)
        })
        .collect())
}

fn figures(counted: CountedService) -> ServiceFigures {
    let CountedService {
        service,
        port,
        counts:
            ServiceCounts {
                connections,
                refused,
                traffic,
            },
    } = counted;
    let refused = refused.into_iter();
    let refused = refused.map(|(counter, count)| (counter.name().to_owned(), count));
    ServiceFigures {
        service,
        port,
        counters: ServiceCounters {
            connections,
            refused: refused.collect(),
            traffic: traffic.map(shown),
        },
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
