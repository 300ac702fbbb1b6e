//! Counts of each service port.

use std::{borrow::Cow, fmt};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_api::view::ServiceTraffic;
use shunt_runtime::ServiceFigures;

use crate::metrics::sample::{Samples, Series};

/// The labels that all series have.
const SERVICE: [&str; 3] = ["namespace", "service", "port"];

/// The service ports.
#[derive(Debug)]
pub(crate) struct CountedServices(pub(crate) Vec<ServiceFigures>);

impl CountedServices {
    /// A series for each service port.
    fn connections(&self) -> impl Iterator<Item = Series<u64>> {
        let figures = self.0.iter();
        figures.map(|figures| (labels(figures, None), figures.counters.connections))
    }

    /// A series for each service port. It begins at 0, so that the rate of the first refusals is seen.
    fn all_refused(&self) -> impl Iterator<Item = Series<u64>> {
        self.0.iter().map(|figures| {
            let refused = figures.counters.refused.values();
            (labels(figures, None), refused.sum())
        })
    }

    /// A series for each reason, beginning so, for which something of a service port was refused.
    fn refused(&self, prefix: &'static str) -> impl Iterator<Item = Series<u64>> {
        self.0.iter().flat_map(move |figures| {
            let refused = figures.counters.refused.iter();
            refused.filter_map(move |(name, count)| {
                let reason = name.strip_prefix(prefix)?.to_owned();
                Some((labels(figures, Some(reason.into())), *count))
            })
        })
    }

    /// Two series for each service port, if there are any: of clients and of backends.
    fn traffic(
        &self,
        counts: fn(&ServiceTraffic) -> [u64; 2],
    ) -> impl Iterator<Item = Series<u64>> {
        self.0.iter().flat_map(move |figures| {
            let counts = figures.counters.traffic.as_ref().map(counts);
            let counts = counts.into_iter().flatten().zip(["request", "reply"]);
            counts.map(|(count, kind)| (labels(figures, Some(kind.into())), count))
        })
    }
}

/// The values of the labels of a service port, and of one more label.
fn labels(figures: &ServiceFigures, last: Option<Cow<'static, str>>) -> Vec<Cow<'static, str>> {
    let ServiceFigures { service, port, .. } = figures;
    let names = [&*service.namespace, &service.name, port];
    let names = names.into_iter().map(|name| name.to_owned().into());
    names.chain(last).collect()
}

impl Collector for CountedServices {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let [namespace, service, port] = SERVICE;
        let mut samples = Samples(encoder);
        samples.counter(
            "shunt_service_connections",
            "Connections of a service port that chose a backend",
            &SERVICE,
            self.connections(),
        )?;
        samples.counter(
            "shunt_service_refused",
            "Packets and system calls for a service port that were answered with an error or dropped",
            &SERVICE,
            self.all_refused(),
        )?;
        let by_reason = [namespace, service, port, "reason"];
        samples.counter(
            "shunt_service_rejected",
            "Packets and system calls for a service port that were answered with an error, by reason",
            &by_reason,
            self.refused("reject_"),
        )?;
        samples.counter(
            "shunt_service_dropped",
            "Packets and system calls for a service port that were dropped, by reason",
            &by_reason,
            self.refused("drop_"),
        )?;
        let by_kind = [namespace, service, port, "kind"];
        samples.counter(
            "shunt_service_packets",
            "Packets of a service port's connections, if they are counted",
            &by_kind,
            self.traffic(|traffic| [traffic.request_packets, traffic.reply_packets]),
        )?;
        samples.counter(
            "shunt_service_bytes",
            "Their bytes from the IP header on",
            &by_kind,
            self.traffic(|traffic| [traffic.request_bytes, traffic.reply_bytes]),
        )
    }
}
