//! Frontends as a table for people.

use std::{
    array,
    io::{self, Write},
    net::SocketAddr,
};

use shunt_api::view::{Backend, Frontend};

use crate::cli::{split_table::write_splits, table::Table};

/// Writes the frontends as a table, a line for each backend, and behind it their splits.
pub(crate) fn write_table(frontends: &[Frontend], output: &mut impl Write) -> io::Result<()> {
    let mut table = Table::new([
        "FRONTEND",
        "KIND",
        "SERVICE",
        "POLICY",
        "CLIENTS",
        "SELECTION",
        "FORWARDING",
        "AFFINITY",
        "BACKEND",
        "WEIGHT",
        "LOCAL",
    ]);
    for frontend in frontends {
        let Frontend {
            key,
            kind,
            service,
            service_port: _,
            policy,
            selection,
            forwarding,
            affinity_timeout,
            backends,
            split,
            difference: _,
            counters: _,
            this_node_only,
        } = frontend;
        let known = |text: &Option<String>| text.clone().unwrap_or_else(|| "-".to_owned());
        let clients = if *this_node_only {
            "this node"
        } else {
            "everyone"
        };
        let affinity = match affinity_timeout {
            0 => "-".to_owned(),
            seconds => format!("{seconds}s"),
        };
        let first = [
            key.to_string(),
            known(kind),
            known(service),
            policy.map_or_else(|| "-".to_owned(), |policy| policy.to_string()),
            clients.into(),
            selection.map_or_else(|| "-".to_owned(), |selection| selection.to_string()),
            forwarding.map_or_else(|| "-".to_owned(), |forwarding| forwarding.to_string()),
            affinity,
        ];
        let mut left = Some(first);
        if backends.is_empty() {
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
        } in backends
        {
            let local = if local { "yes" } else { "no" };
            let weight = match split {
                None => weight.to_string(),
                Some(_) => percent(weight),
            };
            let right = [SocketAddr::new(ip, port).to_string(), weight, local.into()];
            push(&mut table, left.take(), right);
        }
        if let Some(refused) = split.as_ref().map(|split| split.refused)
            && refused > 0
        {
            let right = ["refused".into(), percent(refused), "-".into()];
            push(&mut table, left.take(), right);
        }
    }
    write!(output, "{table}")?;
    write_splits(frontends, output)
}

/// A share of a split, in parts of [`u32::MAX`].
fn percent(share: u32) -> String {
    let percent = f64::from(share) * 100.0 / f64::from(u32::MAX);
    format!("{percent:.2}%")
}

/// Adds a row; a backend after the first has nothing on its left.
fn push(table: &mut Table<11>, left: Option<[String; 8]>, right: [String; 3]) {
    let mut cells = left.unwrap_or_default().into_iter().chain(right);
    table.push(array::from_fn(|_| cells.next().unwrap_or_default()));
}
