//! The answer to the page's request of each second: what is new since its last one, and everything if there was
//! none.

use serde_json::{Value, json};

use crate::ui::{
    parameters::Parameters,
    sampler::{Point, Sampler, Seen},
};

/// Data that the page has already.
#[derive(Debug, Default)]
struct Had {
    /// The last look at rates.
    sample: Option<u64>,
    /// The revision of the catalog.
    catalog: Option<u64>,
    /// The last point of the charts.
    point: u64,
}

impl Had {
    /// Reads it from a request, if it is about this run of the agent.
    fn read(parameters: &Parameters, run: u64) -> Result<Self, String> {
        if parameters.value("run")? != Some(run) {
            return Ok(Self::default());
        }
        Ok(Self {
            sample: parameters.value("sample")?,
            catalog: parameters.value("catalog")?,
            point: parameters.value("point")?.unwrap_or_default(),
        })
    }
}

/// Returns what is new, beside what is asked about.
///
/// # Errors
///
/// What is wrong with the request.
pub(super) async fn live(
    sampler: &Sampler,
    run: u64,
    parameters: &Parameters,
) -> Result<Value, String> {
    let had = Had::read(parameters, run)?;
    sampler.freshen().await;
    let seen = sampler.seen();
    let (rates, all) = match had.sample.and_then(|sample| seen.rates.since(sample)) {
        Some(moved) => (moved, false),
        None => (seen.rates.now(), true),
    };
    let rates = rates.into_iter().filter_map(|(service, rate)| {
        let listed = seen.catalog.get(service)?;
        let mut line = vec![json!(listed.number)];
        line.extend(rate.shown());
        Some(Value::Array(line))
    });
    Ok(json!({
        "run": run,
        "sample": seen.rates.number(),
        "rates": { "all": all, "services": rates.collect::<Vec<_>>() },
        "catalog": seen.catalog.since(had.catalog),
        "points": points(&seen, had.point),
        "point": seen.points.back().map_or(0, |point| point.number),
        "counters": counters(&seen),
        "figures": figures(&seen),
        "changes": sampler.changes().revision(),
        "busy": busy(sampler),
    }))
}

/// Returns the time in seconds for which the event loop has been at what it does now; `null` if it waits.
fn busy(sampler: &Sampler) -> Option<f64> {
    let busy = sampler.inspector().reports().health().busy;
    busy.map(|since| since.elapsed().as_secs_f64())
}

fn points(seen: &Seen, had: u64) -> Vec<Value> {
    let new = seen.points.iter().filter(|point| point.number > had);
    new.map(|point| {
        let Point {
            number: _,
            at,
            connections,
            translated,
            dropped,
            rejected,
            conntrack,
        } = point;
        json!([at, connections, translated, dropped, rejected, conntrack])
    })
    .collect()
}

/// By name: how much so far, and how much in the last second.
fn counters(seen: &Seen) -> Value {
    let counters = seen.counters.iter();
    let shown = counters.map(|(name, counted)| {
        let value = json!([counted.total, counted.rate]);
        ((*name).to_owned(), value)
    });
    Value::Object(shown.collect())
}

fn figures(seen: &Seen) -> Value {
    let Some(figures) = &seen.figures else {
        return Value::Null;
    };
    let tables = figures.tables.iter();
    let tables = tables.map(|table| json!([table.name, table.used, table.capacity]));
    json!({
        "synced": figures.synced,
        "held": figures.held,
        "conflicts": figures.conflicts,
        "interfaces": {
            "attached": figures.interfaces.attached,
            "attaching": figures.interfaces.attaching,
            "loading": figures.interfaces.loading,
            "absent": figures.interfaces.absent,
            "failed": figures.interfaces.failed,
        },
        "tables": tables.collect::<Vec<_>>(),
    })
}
