//! What is registered with the agent itself.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_api::view::LocalApi;

use crate::serve::metrics::sample::{Samples, of, one};

/// Services that are registered, their checks, and who waits.
#[derive(Debug)]
pub(crate) struct Registered(pub(crate) LocalApi);

impl Collector for Registered {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(local) = self;
        let mut samples = Samples(encoder);
        samples.gauge(
            "shunt_local_services",
            "Services that are registered with the agent itself",
            &[],
            one(local.services as f64),
        )?;
        samples.gauge(
            "shunt_local_checks",
            "Their checks, and those of the node, by status",
            &["status"],
            [
                of("passing", local.passing as f64),
                of("warning", local.warning as f64),
                of("critical", local.critical as f64),
            ],
        )?;
        samples.gauge(
            "shunt_local_waiting",
            "Clients that wait for such a service to change",
            &[],
            one(local.waiting as f64),
        )?;
        samples.counter(
            "shunt_local_state_writes",
            "Writes of the file in which registrations outlive the agent, by what became of them",
            &["result"],
            [
                of("written", local.writes),
                of("failed", local.failed_writes),
            ],
        )
    }
}
