//! The rates between two looks.

use std::net::SocketAddr;

use crate::cli::top::sample::{BackendUse, Counted, Sample, ServicePort};

/// Row of a service port in a list.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct ServiceRow {
    pub(super) id: ServicePort,
    /// New connections a second; `None` after one look, or if the counter began anew.
    pub(super) new: Option<f64>,
    /// Packets a second that were rejected or dropped.
    pub(super) errors: Option<f64>,
    pub(super) active: Option<u64>,
    /// New connections in all.
    pub(super) total: u64,
    /// Backends that take new connections, and all.
    pub(super) backends: (usize, usize),
    /// The first of its frontends, and how many more there are.
    pub(super) frontend: String,
    /// Kernel and events differ.
    pub(super) differs: bool,
}

/// A row for each service port, in the order of their names.
pub(super) fn service_rows(before: Option<&Sample>, now: &Sample) -> Vec<ServiceRow> {
    let rows = now.services.iter().map(|(id, counted)| {
        let earlier = before.and_then(|before| Some((before, before.services.get(id)?)));
        let rate = |then: Option<u64>, total: u64| {
            let (before, _) = earlier?;
            per_second(then?, total, before, now)
        };
        let mut frontends = counted.frontends.iter();
        let first = frontends.next().map(ToString::to_string);
        let more = frontends.len();
        let frontend = match (first, more) {
            (None, _) => String::new(),
            (Some(first), 0) => first,
            (Some(first), more) => format!("{first} +{more}"),
        };
        ServiceRow {
            id: id.clone(),
            new: rate(
                earlier.map(|(_, then)| then.connections),
                counted.connections,
            ),
            errors: rate(earlier.map(|(_, then)| then.errors), counted.errors),
            active: counted.active,
            total: counted.connections,
            backends: (counted.usable(), counted.backends.len()),
            frontend,
            differs: counted.differs,
        }
    });
    rows.collect()
}

/// Row of a backend.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct BackendRow {
    pub(super) address: SocketAddr,
    /// Connections a second that it is chosen for; `None` as in a service's row.
    pub(super) new: Option<f64>,
    pub(super) usage: BackendUse,
}

/// A row for each backend of a service port, in the order of their addresses.
pub(super) fn backend_rows(
    before: Option<&Sample>,
    now: &Sample,
    id: &ServicePort,
    counted: &Counted,
) -> Vec<BackendRow> {
    let rows = counted.backends.iter().map(|(address, usage)| {
        let new = before.and_then(|before| {
            let then = before.services.get(id)?.backends.get(address)?;
            per_second(then.connections, usage.connections, before, now)
        });
        BackendRow {
            address: *address,
            new,
            usage: *usage,
        }
    });
    rows.collect()
}

/// Row of a counter of the programs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CounterRow {
    pub(super) name: String,
    pub(super) rate: Option<f64>,
    pub(super) total: u64,
}

/// Returns the counters of the programs, the highest rate first; those at zero are left out.
pub(super) fn counter_rows(before: Option<&Sample>, now: &Sample) -> Vec<CounterRow> {
    let counted = now.counters.iter().filter(|(_, total)| **total > 0);
    let mut rows: Vec<_> = counted
        .map(|(name, &total)| CounterRow {
            name: name.clone(),
            rate: before.and_then(|before| {
                let then = before.counters.get(name).copied().unwrap_or_default();
                per_second(then, total, before, now)
            }),
            total,
        })
        .collect();
    rows.sort_by(|a, b| {
        let by_rate = b.rate.unwrap_or(0.0).total_cmp(&a.rate.unwrap_or(0.0));
        by_rate.then(b.total.cmp(&a.total))
    });
    rows
}

/// Returns the rate of a counter a second; `None` if the counter went back, as when it began anew, or if no time went
/// by.
fn per_second(then: u64, now: u64, before: &Sample, after: &Sample) -> Option<f64> {
    let seconds = after.at.checked_duration_since(before.at)?.as_secs_f64();
    let counted = now.checked_sub(then)?;
    (seconds > 0.0).then(|| counted as f64 / seconds)
}
