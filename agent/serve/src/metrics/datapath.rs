//! Counters of the programs.

use std::fmt;

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};

use crate::metrics::sample::{Samples, Series, of, one};

/// The programs' counters, by name.
#[derive(Debug)]
pub(crate) struct Counted(pub(crate) Vec<(&'static str, u64)>);

impl Counted {
    fn get(&self, wanted: &str) -> u64 {
        let found = self.0.iter().find(|(name, _)| *name == wanted);
        found.map_or(0, |(_, count)| *count)
    }

    /// The counters whose name begins so, by the rest of it.
    fn reasons(&self, prefix: &'static str) -> impl Iterator<Item = Series<u64>> {
        self.0
            .iter()
            .filter_map(move |(name, count)| Some(of(name.strip_prefix(prefix)?, *count)))
    }

    /// Returns the counters that have no metric of their own.
    fn others(&self) -> impl Iterator<Item = Series<u64>> {
        const OWN: [&str; 4] = ["drop_", "reject_", "pass_", "socket_"];
        const SINGLE: [&str; 3] = ["connection", "conntrack_early_drop", "bind_refused"];
        let has_own = |name: &str| {
            SINGLE.contains(&name) || OWN.iter().any(|prefix| name.starts_with(prefix))
        };
        let others = self.0.iter().filter(move |(name, _)| !has_own(name));
        others.map(|(name, count)| of(*name, *count))
    }
}

impl Collector for Counted {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut samples = Samples(encoder);
        for (name, help, label, prefix) in [
            (
                "shunt_dropped_packets",
                "Packets that were dropped, by reason",
                "reason",
                "drop_",
            ),
            (
                "shunt_rejected_packets",
                "Packets that were answered with an ICMP error, by reason",
                "reason",
                "reject_",
            ),
            (
                "shunt_passed_packets",
                "Packets that were left alone, by reason",
                "reason",
                "pass_",
            ),
            (
                "shunt_socket_calls",
                "System calls of processes for services, by what became of them",
                "result",
                "socket_",
            ),
        ] {
            samples.counter(name, help, &[label], self.reasons(prefix))?;
        }
        samples.counter(
            "shunt_packets",
            "Packets that were translated, and what else was done with packets of connections",
            &["kind"],
            self.others(),
        )?;
        for (name, help, counter) in [
            (
                "shunt_connections_opened",
                "Connections whose first packet chose a backend",
                "connection",
            ),
            (
                "shunt_conntrack_early_drops",
                "Connections that were forgotten before their time, for new ones",
                "conntrack_early_drop",
            ),
            (
                "shunt_binds_refused",
                "Processes that may not have a port because it is a NodePort",
                "bind_refused",
            ),
        ] {
            samples.counter(name, help, &[], one(self.get(counter)))?;
        }
        Ok(())
    }
}
