//! One service: its frontends and backends, what is counted of it, and what has changed.

use std::time::UNIX_EPOCH;

use serde_json::{Value, json};
use shunt_api::view;
use shunt_model::{Frontend, FrontendKey, ServiceId};
use shunt_runtime::{Changed, ServiceChange, ServiceChanges};

use crate::ui::sampler::Sampler;

/// Number of changes of all services that are shown.
const LATEST: usize = 100;

/// The service called `namespace/name`; `None` if there is none, and nothing is remembered of it.
pub(super) async fn service(sampler: &Sampler, name: &str) -> Option<Value> {
    let (namespace, name) = name.split_once('/')?;
    let id = ServiceId::new(namespace, name);
    sampler.freshen().await;
    let changes = sampler.changes().of(&id);
    let chosen = sampler.chosen().await;
    let seen = sampler.seen();
    let listed = seen.catalog.get(&id);
    if listed.is_none() && changes.is_empty() {
        return None;
    }
    let frontends = listed.map(|listed| listed.frontends.iter().map(frontend));
    let of_it = seen
        .services
        .iter()
        .filter(|figures| *figures.service == id);
    let ports =
        of_it.map(|figures| json!({ "port": &*figures.port, "counters": figures.counters }));
    let chosen = chosen.get(&id).into_iter().flatten();
    let chosen = chosen.map(|((port, at), chosen)| {
        json!({
            "port": &**port,
            "backend": at.to_string(),
            "connections": chosen.total,
            "rate": chosen.rate,
        })
    });
    Some(json!({
        "name": id.to_string(),
        "number": listed.map(|listed| listed.number),
        "frontends": frontends.into_iter().flatten().collect::<Vec<_>>(),
        "ports": ports.collect::<Vec<_>>(),
        "chosen": chosen.collect::<Vec<_>>(),
        "rate": seen.rates.of(&id).shown(),
        "series": seen.rates.series(&id),
        "changes": changes.iter().map(|line| change(line)).collect::<Vec<_>>(),
    }))
}

/// As `shunt services -o json` shows it, with what that leaves out.
fn frontend((key, wanted): &(FrontendKey, Frontend)) -> Value {
    let shown = view::Frontend::from((*key, wanted));
    let mut value = json!(shown);
    value["at"] = json!(key.to_string());
    value["this_node_only"] = json!(shown.this_node_only);
    value["source_ranges"] = json!(&*wanted.sources);
    value
}

/// Returns the latest changes, of all services.
pub(super) fn latest(changes: &ServiceChanges) -> Value {
    let latest = changes.latest(LATEST);
    json!({ "changes": latest.iter().map(|line| change(line)).collect::<Vec<_>>() })
}

fn change(line: &ServiceChange) -> Value {
    let ServiceChange {
        at,
        service,
        port,
        changed,
    } = line;
    let at = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let changed = changed.iter().map(|(kind, Changed { named, more })| {
        json!({ "what": kind.name(), "named": named, "more": more })
    });
    json!({
        "at": u64::try_from(at.as_millis()).unwrap_or(u64::MAX),
        "service": service.to_string(),
        "port": &**port,
        "changed": changed.collect::<Vec<_>>(),
    })
}
