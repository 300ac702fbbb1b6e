//! The effect of an override on services: those that lose their last backend, and new shares.

use std::{collections::BTreeSet, io::Write as _, net::SocketAddr};

use anyhow::Result;
use shunt_api::view::{Frontend, FrontendFilter};
use shunt_model::{Override, ServiceId};
use shunt_print::{
    output::{self, complain},
    table::Table,
};
use tonic::transport::Channel;

use crate::cli::listing::list;

/// So many services are enough for a person.
const SHOWN: usize = 10;

/// Returns a filter for the frontends that an override can change.
pub(super) fn concerned(change: &Override) -> FrontendFilter {
    match change {
        Override::Drain { ip, port: _ } => FrontendFilter {
            address: Some(*ip),
            ..FrontendFilter::default()
        },
        Override::DrainNode { node: _ } => FrontendFilter::default(),
        Override::Weight { service, .. } => of_service(service),
    }
}

fn of_service(ServiceId { namespace, name }: &ServiceId) -> FrontendFilter {
    FrontendFilter {
        namespace: Some(namespace.to_string()),
        name: Some(name.to_string()),
        ..FrontendFilter::default()
    }
}

/// Returns the service ports with a frontend of which no backend takes connections.
///
/// # Errors
///
/// If the agent refuses.
pub(super) async fn unserved(
    channel: Channel,
    concerned: &FrontendFilter,
) -> Result<BTreeSet<String>> {
    let filter = FrontendFilter {
        not_right: true,
        ..concerned.clone()
    };
    let listed = list(channel, filter).await?;
    Ok(names(&listed.live))
}

fn names(frontends: &[Frontend]) -> BTreeSet<String> {
    let takes_none =
        |frontend: &&Frontend| frontend.backends.iter().all(|backend| backend.weight == 0);
    let unserved = frontends.iter().filter(takes_none);
    let names = unserved.filter_map(|frontend| {
        let service = frontend.service.as_deref()?;
        let port = frontend.service_port.as_deref().unwrap_or_default();
        Some(if port.is_empty() {
            service.to_owned()
        } else {
            format!("{service}:{port}")
        })
    });
    names.collect()
}

/// Warns of service ports that have lost their last backend.
pub(super) fn warn(before: &BTreeSet<String>, after: &BTreeSet<String>) {
    let lost: Vec<&str> = after.difference(before).map(String::as_str).collect();
    if lost.is_empty() {
        return;
    }
    let shown = lost[..lost.len().min(SHOWN)].join(", ");
    let more = match lost.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    complain(format_args!(
        "warning: no backend takes new connections of {shown}{more} any more"
    ));
}

/// Prints the shares of a service's backends in new connections.
///
/// # Errors
///
/// If the agent refuses, or the output cannot be written.
pub(super) async fn show_shares(channel: Channel, service: &ServiceId) -> Result<()> {
    let listed = list(channel, of_service(service)).await?;
    let table = shares(&listed.live);
    output::print(|out| write!(out, "{table}"))?;
    Ok(())
}

/// A line for each backend of each service port and policy.
fn shares(frontends: &[Frontend]) -> Table<5> {
    let mut lines = BTreeSet::new();
    for frontend in frontends {
        let weights = frontend.backends.iter();
        let sum: u64 = weights.map(|backend| u64::from(backend.weight)).sum();
        let policy = frontend.policy.map(|policy| policy.to_string());
        let port = frontend.service_port.clone().unwrap_or_default();
        for backend in &frontend.backends {
            let share = 100.0 * f64::from(backend.weight) / sum.max(1) as f64;
            lines.insert([
                if port.is_empty() { "-" } else { &port }.to_owned(),
                policy.clone().unwrap_or_else(|| "-".to_owned()),
                SocketAddr::new(backend.ip, backend.port).to_string(),
                backend.weight.to_string(),
                format!("{share:.1} %"),
            ]);
        }
    }
    let mut table = Table::new(["PORT", "POLICY", "BACKEND", "WEIGHT", "SHARE"]);
    for line in lines {
        table.push(line);
    }
    table
}

#[cfg(test)]
mod tests {
    use shunt_api::view::{Backend, FrontendKey, ProtocolNumber};

    use super::*;

    fn frontend(service: &str, port: &str, weights: &[u32]) -> Frontend {
        let backends = weights.iter().zip(1..).map(|(weight, number)| Backend {
            ip: [10, 1, 1, number].into(),
            port: 8080,
            weight: *weight,
            local: true,
            new_connections: 0,
        });
        Frontend {
            key: FrontendKey {
                address: [10, 96, 0, 10].into(),
                port: 80,
                protocol: ProtocolNumber(6),
            },
            kind: None,
            service: Some(service.to_owned()),
            service_port: Some(port.to_owned()),
            policy: None,
            selection: None,
            forwarding: None,
            masquerade: None,
            affinity_timeout: 0,
            backends: backends.collect(),
            split: None,
            difference: None,
            counters: None,
            source_ranges: Vec::new(),
            this_node_only: false,
        }
    }

    #[test]
    fn service_ports_without_a_backend_that_takes_connections_are_named() {
        let found = names(&[
            frontend("a/web", "http", &[1, 0]),
            frontend("a/mail", "", &[0, 0]),
            frontend("a/dns", "udp", &[]),
        ]);
        assert_eq!(
            found.into_iter().collect::<Vec<_>>(),
            ["a/dns:udp", "a/mail"]
        );
    }

    #[test]
    fn shares_are_those_of_one_set_of_backends() {
        let table = shares(&[
            frontend("a/web", "http", &[1, 3]),
            // A NodePort of the same port has the same set.
            frontend("a/web", "http", &[1, 3]),
            frontend("a/web", "", &[0]),
        ])
        .to_string();
        let cells: Vec<Vec<&str>> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(
            cells,
            [
                ["-", "-", "10.1.1.1:8080", "0", "0.0", "%"],
                ["http", "-", "10.1.1.1:8080", "1", "25.0", "%"],
                ["http", "-", "10.1.1.2:8080", "3", "75.0", "%"],
            ]
        );
    }
}
