//! Frontends in the form that is shown, for programs and for people.

use std::{
    io::{self, Write},
    net::{IpAddr, SocketAddr},
};

use serde::Serialize;
use shunt::renderer::{Backend, Clients, Frontend, FrontendKey};

use super::table::Table;

/// A frontend as it is shown. The order of the fields is the order in JSON.
#[derive(Debug, Serialize)]
struct Row {
    address: IpAddr,
    port: u16,
    protocol: &'static str,
    kind: &'static str,
    service: String,
    policy: &'static str,
    affinity_timeout: u32,
    backends: Vec<BackendRow>,
}

#[derive(Debug, Serialize)]
struct BackendRow {
    ip: IpAddr,
    port: u16,
    weight: u32,
    local: bool,
}

impl Row {
    fn new((key, frontend): (FrontendKey, &Frontend)) -> Self {
        let FrontendKey {
            address,
            port,
            protocol,
        } = key;
        let Frontend {
            kind,
            policy,
            clients: _,
            refusal: _,
            affinity_timeout,
            backends,
        } = frontend;
        let row = |&Backend {
                       ip,
                       port,
                       weight,
                       local,
                   }: &Backend| BackendRow {
            ip,
            port,
            weight,
            local,
        };
        Self {
            address,
            port,
            protocol: protocol.name(),
            kind: kind.name(),
            service: backends.service.to_string(),
            policy: policy.name(),
            affinity_timeout: *affinity_timeout,
            backends: backends.backends.iter().map(row).collect(),
        }
    }
}

/// Writes a JSON array of the frontends, in their order.
pub(crate) fn write_json<'a>(
    frontends: impl Iterator<Item = (FrontendKey, &'a Frontend)>,
    output: &mut impl Write,
) -> io::Result<()> {
    let rows: Vec<Row> = frontends.map(Row::new).collect();
    serde_json::to_writer(&mut *output, &rows)?;
    writeln!(output)
}

/// Writes the frontends as a table, a line for each backend.
pub(crate) fn write_table<'a>(
    frontends: impl Iterator<Item = (FrontendKey, &'a Frontend)>,
    output: &mut impl Write,
) -> io::Result<()> {
    let mut table = Table::new([
        "FRONTEND", "KIND", "SERVICE", "POLICY", "CLIENTS", "AFFINITY", "BACKEND", "WEIGHT",
        "LOCAL",
    ]);
    for (key, frontend) in frontends {
        let Frontend {
            kind,
            policy,
            clients,
            refusal: _,
            affinity_timeout,
            backends,
        } = frontend;
        let clients = match clients {
            Clients::Everyone => "everyone",
            Clients::ThisNode => "this node",
        };
        let affinity = match affinity_timeout {
            0 => "-".to_owned(),
            seconds => format!("{seconds}s"),
        };
        let service = backends.service.to_string();
        let first = [
            key.to_string(),
            kind.name().into(),
            service,
            policy.name().into(),
            clients.into(),
            affinity,
        ];
        let mut left = Some(first);
        if backends.backends.is_empty() {
            push(
                &mut table,
                left.take(),
                ["none".into(), "-".into(), "-".into()],
            );
        }
        for &Backend {
            ip,
            port,
            weight,
            local,
        } in &backends.backends
        {
            let local = if local { "yes" } else { "no" };
            let right = [
                SocketAddr::new(ip, port).to_string(),
                weight.to_string(),
                local.into(),
            ];
            push(&mut table, left.take(), right);
        }
    }
    write!(output, "{table}")
}

/// Adds a row; a backend after the first has nothing on its left.
fn push(table: &mut Table<9>, left: Option<[String; 6]>, right: [String; 3]) {
    let [a, b, c, d, e, f] = left.unwrap_or_default();
    let [g, h, i] = right;
    table.push([a, b, c, d, e, f, g, h, i]);
}
