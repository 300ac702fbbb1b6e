//! Metrics of what is registered with the agent itself.

use std::{borrow::Cow, collections::BTreeMap, fmt};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_api::view::{Federation, LocalApi};

use crate::metrics::sample::{Samples, of, one};

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
        )?;
        match &local.federation {
            Some(federation) => federated(&mut samples, federation),
            None => Ok(()),
        }
    }
}

/// Writes the metrics of other datacenters.
fn federated(samples: &mut Samples<'_>, federation: &Federation) -> fmt::Result {
    let mut gateways = BTreeMap::<&str, u64>::new();
    for gateway in &federation.gateways {
        *gateways.entry(&gateway.datacenter).or_default() += 1;
    }
    samples.gauge(
        "shunt_federation_gateways",
        "Gateways of datacenters that are known without Consul, the own ones too",
        &["datacenter"],
        gateways
            .into_iter()
            .map(|(datacenter, count)| (vec![Cow::Owned(datacenter.to_owned())], count as f64)),
    )?;
    samples.gauge(
        "shunt_federation_up_to_date",
        "Whether they are as the primary datacenter has them",
        &[],
        one(f64::from(u8::from(federation.up_to_date))),
    )?;
    samples.gauge(
        "shunt_federation_services_failed_over",
        "Services whose new connections go to another datacenter",
        &[],
        one(federation.failed_over.len() as f64),
    )?;
    samples.counter(
        "shunt_federation_failures",
        "Failures to tell or ask the primary datacenter",
        &[],
        one(federation.failures),
    )
}
