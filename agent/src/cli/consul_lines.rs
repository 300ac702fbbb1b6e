//! `shunt status`: the source that follows Consul.

use shunt_api::view::{Consul, FailedOver, Gateway, StaleWatch, Untranslated};
use shunt_print::table::Table;

/// So many services are enough for a person.
const SHOWN: usize = 20;

/// Returns the facts of one line each; times are shown by `duration`.
pub(super) fn lines(
    consul: &Consul,
    duration: impl Fn(u64) -> String,
) -> [(&'static str, String); 4] {
    let Consul {
        address,
        datacenter,
        node,
        hints,
        watches,
        stale,
        synced,
        last_change_seconds_ago,
        frontends,
        instances,
        pending,
        lag_milliseconds,
        missing_rights,
        skipped: _,
        failed_over: _,
        gateways: _,
    } = consul;
    let oldest = stale.iter().map(|stale| stale.since_seconds_ago).max();
    let state = match (oldest, synced) {
        (Some(oldest), _) => format!("NOT up to date for {}", duration(oldest)),
        (None, true) => "up to date".to_owned(),
        (None, false) => "reading what there is".to_owned(),
    };
    let last = last_change_seconds_ago.map_or_else(String::new, |seconds| {
        format!(", last change {} ago", duration(seconds))
    });
    let mode = if *hints {
        "by hints: over https they would block each"
    } else {
        "each by a query that blocks"
    };
    let lag = match (pending, lag_milliseconds) {
        (0, _) => "none".to_owned(),
        (pending, lag) => {
            let lag = lag.unwrap_or_default();
            format!("{pending} services, the oldest for {lag} ms")
        }
    };
    let unknown = || "unknown yet".to_owned();
    let node = node.clone().unwrap_or_else(unknown);
    let datacenter = datacenter.clone().unwrap_or_else(unknown);
    let rights = if missing_rights.is_empty() {
        String::new()
    } else {
        format!("; the token LACKS {}", missing_rights.join("; "))
    };
    [
        ("consul:", format!("{address}: {state}{last}{rights}")),
        ("consul node:", format!("{node}, datacenter {datacenter}")),
        (
            "watches:",
            format!(
                "{watches} services, {mode}, {} of them not up to date; {frontends} frontends, \
                 {instances} instances",
                stale.len()
            ),
        ),
        ("pending:", lag),
    ]
}

/// Returns the queries that are not up to date; their last answers stay.
pub(super) fn stale(consul: &Consul, duration: impl Fn(u64) -> String) -> Table<3> {
    let mut table = Table::new(["CONSUL SERVICE", "STALE FOR", "REASON"]);
    for stale in consul.stale.iter().take(SHOWN) {
        let StaleWatch {
            service,
            since_seconds_ago,
            reason,
        } = stale;
        let since = duration(*since_seconds_ago);
        table.push([service.clone(), since, reason.clone()]);
    }
    table
}

/// Returns the services that are left out.
pub(super) fn skipped(consul: &Consul) -> Table<2> {
    let mut table = Table::new(["SERVICE", "LEFT OUT"]);
    for Untranslated { service, reasons } in consul.skipped.iter().take(SHOWN) {
        for reason in reasons {
            table.push([service.clone(), reason.clone()]);
        }
    }
    table
}

/// Returns the services that another datacenter serves.
pub(super) fn failed_over(failed_over: &[FailedOver]) -> Table<2> {
    let mut table = Table::new(["SERVICE", "SERVED BY DATACENTER"]);
    for FailedOver {
        service,
        datacenter,
    } in failed_over.iter().take(SHOWN)
    {
        table.push([service.clone(), datacenter.clone()]);
    }
    table
}

/// The gateways of datacenters, and where they are known from.
pub(super) fn gateways(gateways: &[Gateway]) -> Table<4> {
    let mut table = Table::new(["DATACENTER", "GATEWAY", "STATE", "KNOWN FROM"]);
    for Gateway {
        datacenter,
        node,
        id,
        usable,
        origin,
    } in gateways.iter().take(SHOWN)
    {
        let state = if *usable { "usable" } else { "critical" };
        table.push([
            datacenter.clone(),
            format!("{id} on {node}"),
            state.to_owned(),
            origin.clone(),
        ]);
    }
    table
}
