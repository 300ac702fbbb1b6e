//! Frontends as tables for people: a line each, or a line for each backend.

use std::{
    array,
    io::{self, Write},
    net::SocketAddr,
};

use shunt_api::view::{Backend, Frontend};

use crate::{output::ListFormat, split_table::write_splits, table::Table};

/// Writes the frontends in the requested form, if it is one for people; returns whether it was.
///
/// # Errors
///
/// The output cannot be written.
pub fn write_frontends(
    frontends: &[Frontend],
    form: ListFormat,
    output: &mut impl Write,
) -> io::Result<bool> {
    match form {
        ListFormat::Table => write!(output, "{}", brief(frontends))?,
        ListFormat::Wide => write!(output, "{}", wide(frontends))?,
        ListFormat::Json => return Ok(false),
    }
    write_splits(frontends, output)?;
    Ok(true)
}

/// A line for each frontend.
pub fn brief(frontends: &[Frontend]) -> Table<8> {
    let mut table = Table::new([
        "FRONTEND", "KIND", "SERVICE", "PORT", "POLICY", "CLIENTS", "BACKENDS", "STATE",
    ]);
    for frontend in frontends {
        let [key, kind, service, port, policy, clients, ..] = facts(frontend, false);
        table.push([
            key,
            kind,
            service,
            port,
            policy,
            clients,
            backends(frontend),
            state(frontend),
        ]);
    }
    table
}

/// A line for each backend, and one for what a split refuses; each line is complete, so that it can be picked out of
/// many.
fn wide(frontends: &[Frontend]) -> Table<14> {
    let mut table = Table::new([
        "FRONTEND",
        "KIND",
        "SERVICE",
        "PORT",
        "POLICY",
        "CLIENTS",
        "SELECTION",
        "FORWARDING",
        "MASQUERADE",
        "AFFINITY",
        "BACKEND",
        "WEIGHT",
        "LOCAL",
        "STATE",
    ]);
    for frontend in frontends {
        let mut push = |backend: [String; 3]| {
            let cells = facts(frontend, true).into_iter().chain(backend);
            let mut cells = cells.chain([state(frontend)]);
            table.push(array::from_fn(|_| cells.next().unwrap_or_default()));
        };
        let Frontend {
            backends, split, ..
        } = frontend;
        if backends.is_empty() {
            push(["none", "-", "-"].map(str::to_owned));
        }
        for &Backend {
            ip,
            port,
            weight,
            local,
            new_connections: _,
        } in backends
        {
            let local = if local { "yes" } else { "no" };
            let weight = match split {
                None => weight.to_string(),
                Some(_) => percent(weight),
            };
            push([SocketAddr::new(ip, port).to_string(), weight, local.into()]);
        }
        if let Some(refused) = split.as_ref().map(|split| split.refused)
            && refused > 0
        {
            push(["refused".into(), percent(refused), "-".into()]);
        }
    }
    table
}

/// Returns the facts of a frontend by itself, with all ranges of its clients or the first one.
fn facts(frontend: &Frontend, with_all: bool) -> [String; 10] {
    let Frontend {
        key,
        kind,
        service,
        service_port,
        policy,
        selection,
        forwarding,
        masquerade,
        affinity_timeout,
        backends: _,
        split: _,
        difference: _,
        counters: _,
        source_ranges,
        this_node_only,
    } = frontend;
    let known = |text: &Option<String>| match text.as_deref() {
        None | Some("") => "-".to_owned(),
        Some(text) => text.to_owned(),
    };
    let clients = match source_ranges.as_slice() {
        [] if *this_node_only => "this node".to_owned(),
        [] => "everyone".to_owned(),
        [first, others @ ..] if !with_all && !others.is_empty() => {
            format!("{first},+{}", others.len())
        }
        ranges => ranges.join(","),
    };
    let affinity = match affinity_timeout {
        0 => "-".to_owned(),
        seconds => format!("{seconds}s"),
    };
    [
        key.to_string(),
        known(kind),
        known(service),
        known(service_port),
        policy.map_or_else(|| "-".to_owned(), |policy| policy.to_string()),
        clients,
        selection.map_or_else(|| "-".to_owned(), |selection| selection.to_string()),
        forwarding.map_or_else(|| "-".to_owned(), |forwarding| forwarding.to_string()),
        masquerade.map_or_else(|| "-".to_owned(), |masquerade| masquerade.to_string()),
        affinity,
    ]
}

/// Returns the number of its backends: those that take new connections, and all of them if that is another number.
fn backends(frontend: &Frontend) -> String {
    let there = frontend.backends.len();
    let taking = frontend.backends.iter();
    let taking = taking.filter(|backend| backend.weight > 0).count();
    match (taking, there) {
        (_, 0) => "none".to_owned(),
        (taking, there) if taking == there => there.to_string(),
        (taking, there) => format!("{taking} of {there}"),
    }
}

/// Returns the state of the kernel's frontend beside what the events lead to.
fn state(frontend: &Frontend) -> String {
    frontend
        .difference
        .map_or_else(|| "right".to_owned(), |difference| difference.to_string())
}

/// A share of a split, in parts of [`u32::MAX`].
fn percent(share: u32) -> String {
    let percent = f64::from(share) * 100.0 / f64::from(u32::MAX);
    format!("{percent:.2}%")
}

#[cfg(test)]
mod tests {
    use shunt_api::view::{FrontendKey, ProtocolNumber};

    use super::*;

    fn frontend(weights: &[u32]) -> Frontend {
        let backends = weights.iter().zip(1..).map(|(weight, number)| Backend {
            ip: [10, 1, 1, number].into(),
            port: 8080,
            weight: *weight,
            local: number == 1,
            new_connections: 0,
        });
        Frontend {
            key: FrontendKey {
                address: [10, 96, 0, 10].into(),
                port: 80,
                protocol: ProtocolNumber(6),
            },
            kind: Some("ClusterIP".to_owned()),
            service: Some("default/web".to_owned()),
            service_port: Some(String::new()),
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
    fn a_frontend_is_one_line_that_says_how_many_backends_take_connections() {
        for (weights, shown) in [
            (&[][..], "none"),
            (&[1, 1], "2"),
            (&[1, 0, 3], "2 of 3"),
            (&[0], "0 of 1"),
        ] {
            let table = brief(&[frontend(weights)]).to_string();
            let line = table.lines().nth(1).unwrap();
            assert!(line.contains(&format!("  {shown}  ")), "{shown}: {line}");
            assert_eq!(table.lines().count(), 2, "{table}");
        }
    }

    #[test]
    fn the_ranges_of_clients_are_shown_instead_of_everyone() {
        let with = |ranges: &[&str], this_node_only| {
            let source_ranges = ranges.iter().map(|range| (*range).to_owned());
            let one = Frontend {
                source_ranges: source_ranges.collect(),
                this_node_only,
                ..frontend(&[1])
            };
            let line = |table: String| table.lines().nth(1).unwrap().to_owned();
            [
                line(brief(std::slice::from_ref(&one)).to_string()),
                line(wide(&[one]).to_string()),
            ]
        };
        for (ranges, this_node_only, expected) in [
            (&[][..], false, ["everyone", "everyone"]),
            (&[], true, ["this node", "this node"]),
            (&["10.0.0.0/8"], false, ["10.0.0.0/8", "10.0.0.0/8"]),
            (
                &["10.0.0.0/8", "192.0.2.0/24"],
                false,
                ["10.0.0.0/8,+1", "10.0.0.0/8,192.0.2.0/24"],
            ),
        ] {
            for (line, cell) in with(ranges, this_node_only).iter().zip(expected) {
                assert!(line.contains(&format!("  {cell}  ")), "{cell}: {line}");
            }
        }
    }

    #[test]
    fn each_line_of_the_wide_form_names_its_frontend_and_service() {
        let table = wide(&[frontend(&[1, 2]), frontend(&[])]).to_string();
        let lines: Vec<_> = table.lines().skip(1).collect();
        assert_eq!(lines.len(), 3, "{table}");
        for line in lines {
            assert!(line.starts_with("10.96.0.10:80/TCP "), "{line}");
            assert!(line.contains(" default/web "), "{line}");
        }
    }
}
