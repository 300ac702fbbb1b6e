//! The counts of each service port, as a table for people.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use shunt_api::view::{Frontend, ServiceCounters, ServiceTraffic};

use crate::table::Table;

/// Writes a line for each service port of the frontends that is counted, after an empty one; nothing if
/// none is.
///
/// # Errors
///
/// The output cannot be written.
pub fn write_counters(frontends: &[Frontend], output: &mut impl Write) -> io::Result<()> {
    let ports: BTreeMap<(&String, &String), &ServiceCounters> = frontends
        .iter()
        .filter_map(|frontend| {
            let name = (frontend.service.as_ref()?, frontend.service_port.as_ref()?);
            Some((name, frontend.counters.as_ref()?))
        })
        .collect();
    let mut table = Table::new([
        "SERVICE",
        "PORT",
        "CONNECTIONS",
        "REJECTED",
        "DROPPED",
        "PACKETS IN",
        "BYTES IN",
        "PACKETS OUT",
        "BYTES OUT",
    ]);
    for ((service, port), counters) in ports {
        let [packets_in, bytes_in, packets_out, bytes_out] = counters
            .traffic
            .map_or_else(|| ["-"; 4].map(str::to_owned), shown);
        table.push([
            service.clone(),
            unnamed_or(port),
            counters.connections.to_string(),
            counters.refused_as("reject_").to_string(),
            counters.refused_as("drop_").to_string(),
            packets_in,
            bytes_in,
            packets_out,
            bytes_out,
        ]);
    }
    if table.is_empty() {
        return Ok(());
    }
    write!(output, "\n{table}")
}

/// The only port of a service may have no name.
fn unnamed_or(port: &str) -> String {
    if port.is_empty() { "-" } else { port }.to_owned()
}

fn shown(traffic: ServiceTraffic) -> [String; 4] {
    let ServiceTraffic {
        request_packets,
        request_bytes,
        reply_packets,
        reply_bytes,
    } = traffic;
    [request_packets, request_bytes, reply_packets, reply_bytes].map(|count| count.to_string())
}
