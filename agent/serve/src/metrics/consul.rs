//! Metrics of the source that follows Consul.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_runtime::ConsulState;

use crate::metrics::sample::{Samples, Series, of};

/// State of the source, if there is one.
#[derive(Debug)]
pub(crate) struct Followed(pub(crate) Option<ConsulState>);

impl Collector for Followed {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self(state) = self;
        let state = state.as_ref();
        let mut samples = Samples(encoder);
        for (name, help, value) in [
            (
                "shunt_consul_watches",
                "Queries of Consul that are followed",
                state.map(|state| state.watches),
            ),
            (
                "shunt_consul_watches_stale",
                "Those of them that are not up to date",
                state.map(|state| state.stale.len() as u64),
            ),
            (
                "shunt_consul_instances",
                "Instances of Consul's services that are known",
                state.map(|state| state.instances),
            ),
            (
                "shunt_consul_services_incomplete",
                "Services of Consul of which something is left out",
                state.map(|state| state.skipped.len() as u64),
            ),
            (
                "shunt_consul_services_failed_over",
                "Services of Consul that another datacenter serves",
                state.map(|state| state.failed_over.len() as u64),
            ),
            (
                "shunt_consul_gateways",
                "Gateways of other datacenters that are known",
                state.map(|state| state.gateways.len() as u64),
            ),
        ] {
            let value = value.map(|value| -> Series<f64> { (Vec::new(), value as f64) });
            samples.gauge(name, help, &[], value)?;
        }
        let answers = state.map(|state| (Vec::new(), state.answers));
        samples.counter(
            "shunt_consul_answers",
            "Answers of Consul that had something new",
            &[],
            answers,
        )?;
        let failures = state.into_iter().flat_map(|state| &state.failures);
        samples.counter(
            "shunt_consul_failures",
            "Questions to Consul without an answer that can be believed",
            &["reason"],
            failures.map(|(reason, count)| of(*reason, *count)),
        )
    }
}
