//! Picture of services and their backends: those at which most happens, of so many as a picture holds.

use std::{collections::BTreeMap, net::SocketAddr, sync::Arc};

use serde_json::{Value, json};

use crate::ui::{catalog::backends, chosen::Chosen, parameters::Parameters, sampler::Sampler};

/// Maximum number of services in a picture, unless it is asked for fewer.
const SERVICES: usize = 30;

/// Maximum number of backends of one service.
const BACKENDS: usize = 32;

/// The services whose names have this text, and their backends.
///
/// # Errors
///
/// What is wrong with the request.
pub(super) async fn topology(sampler: &Sampler, parameters: &Parameters) -> Result<Value, String> {
    let limit = parameters.value("limit")?.unwrap_or(SERVICES).min(SERVICES);
    let filter = parameters.text("filter").unwrap_or_default().to_lowercase();
    sampler.freshen().await;
    let chosen = sampler.chosen().await;
    let seen = sampler.seen();
    let services = seen.catalog.services();
    let mut meant: Vec<_> = services
        .filter(|(service, _)| {
            filter.is_empty() || service.to_string().to_lowercase().contains(&filter)
        })
        .map(|(service, listed)| (seen.rates.of(service).connections, service, listed))
        .collect();
    let found = meant.len();
    // By name where their rates are the same.
    meant.sort_by(|(one, ..), (other, ..)| other.total_cmp(one));
    meant.truncate(limit);
    let services = meant.into_iter().map(|(rate, service, listed)| {
        let backends = backends(&listed.frontends);
        let count = backends.len();
        let chosen = chosen.get(&**service);
        let shown = backends.into_iter().take(BACKENDS).map(|(at, backend)| {
            let rate = chosen.and_then(|chosen| rate_of(chosen, at));
            json!([at.to_string(), backend.share, backend.local, rate])
        });
        json!({
            "number": listed.number,
            "name": service.to_string(),
            "rate": rate,
            "count": count,
            "backends": shown.collect::<Vec<_>>(),
        })
    });
    Ok(json!({ "found": found, "services": services.collect::<Vec<_>>() }))
}

/// Returns how often a second a backend is chosen by any port of its service; `None` if that is not known of any.
fn rate_of(chosen: &BTreeMap<(Arc<str>, SocketAddr), Chosen>, at: SocketAddr) -> Option<f64> {
    let of_it = chosen.iter().filter(|((_, other), _)| *other == at);
    let rates = of_it.filter_map(|(_, chosen)| chosen.rate);
    rates.reduce(|sum, rate| sum + rate)
}
