//! Data on other datacenters, in the form of Consul's federation states.

use std::collections::BTreeMap;

use hyper::StatusCode;
use serde::Serialize;
use shunt_catalog::{Federation, Gateway, NoPlace, Record, States};
use shunt_http::{Answer, text};

use crate::local_api::{
    index::{index_and_wait, with_index},
    request::Parameters,
    shown::json,
};

/// One record, as Consul shows it alone.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct Alone<'a> {
    state: &'a Record,
    index: u64,
    last_contact: u64,
    known_leader: bool,
}

/// All records, sorted by datacenter.
pub(crate) async fn all(federation: &Federation, asked: &Parameters) -> Answer {
    let states = match newer(federation, asked, |states| states.index).await {
        Ok(states) => states,
        Err(refused) => return *refused,
    };
    let records: Vec<&Record> = states.records.values().collect();
    with_index(json(&records, asked), states.index)
}

/// One record.
pub(super) async fn one(federation: &Federation, datacenter: &str, asked: &Parameters) -> Answer {
    if datacenter.is_empty() {
        return text(StatusCode::BAD_REQUEST, "Missing datacenter name");
    }
    // One that has gone is news at once.
    let index_of = |states: &States| {
        let record = states.records.get(datacenter);
        record.map_or(u64::MAX, |record| record.modify_index)
    };
    let states = match newer(federation, asked, index_of).await {
        Ok(states) => states,
        Err(refused) => return *refused,
    };
    let Some(state) = states.records.get(datacenter) else {
        let reason = format!("Federation state not found: {datacenter}");
        return text(StatusCode::NOT_FOUND, reason);
    };
    let alone = Alone {
        state,
        index: state.modify_index,
        last_contact: 0,
        known_leader: true,
    };
    with_index(json(&alone, asked), state.modify_index)
}

/// The gateways by datacenter, without those datacenters that have none.
pub(super) async fn gateways(federation: &Federation, asked: &Parameters) -> Answer {
    let states = match newer(federation, asked, |states| states.index).await {
        Ok(states) => states,
        Err(refused) => return *refused,
    };
    let records = states.records.values();
    let records = records.filter(|record| !record.mesh_gateways.is_empty());
    let gateways: BTreeMap<&str, &[Gateway]> = records
        .map(|record| (record.datacenter.as_str(), record.mesh_gateways.as_slice()))
        .collect();
    with_index(json(&gateways, asked), states.index)
}

async fn newer(
    federation: &Federation,
    asked: &Parameters,
    index_of: impl Fn(&States) -> u64,
) -> Result<std::sync::Arc<States>, Box<Answer>> {
    let (index, wait) = index_and_wait(asked)?;
    let found = federation.newer(index, wait, index_of).await;
    found.map_err(|NoPlace| {
        let reason = "too many wait for gateways to change: try again later";
        Box::new(text(StatusCode::SERVICE_UNAVAILABLE, reason))
    })
}
