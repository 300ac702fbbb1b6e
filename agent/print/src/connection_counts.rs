//! Numbers of connections, by client, frontend, backend or state.

use std::{
    collections::BTreeMap,
    io::{self, Write},
};

use crate::{
    output::{self, OutputFormat},
    table::Table,
};
use clap::ValueEnum;
use serde::Serialize;
use shunt_api::view::Connection;

/// Property by which connections are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CountBy {
    /// All together
    All,
    /// The client's address
    Client,
    /// The frontend
    Frontend,
    /// The backend
    Backend,
    /// The state
    State,
}

impl CountBy {
    fn of(self, connection: &Connection) -> String {
        let Connection {
            protocol,
            client,
            frontend,
            backend,
            state,
            ..
        } = connection;
        match self {
            Self::All => "all".to_owned(),
            // Each connection has a port of its own.
            Self::Client => client.ip.to_string(),
            Self::Frontend => format!("{frontend}/{protocol}"),
            Self::Backend => format!("{backend}/{protocol}"),
            Self::State => state.to_string(),
        }
    }

    const fn heading(self) -> &'static str {
        match self {
            Self::All => "CONNECTIONS OF",
            Self::Client => "CLIENT",
            Self::Frontend => "FRONTEND",
            Self::Backend => "BACKEND",
            Self::State => "STATE",
        }
    }
}

/// Connections that have something in common.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Count {
    /// The client, frontend, backend or state.
    pub of: String,
    /// Their number.
    pub connections: u64,
}

/// Writes how many there are, the most first.
///
/// # Errors
///
/// The output cannot be written.
pub fn counts(
    connections: &[Connection],
    by: CountBy,
    form: OutputFormat,
    output: &mut impl Write,
) -> io::Result<()> {
    let counted = count(connections, by);
    if matches!(form, OutputFormat::Json) {
        return output::write_json(&counted, output);
    }
    let mut table = Table::new([by.heading(), "CONNECTIONS"]);
    for Count { of, connections } in counted {
        table.push([of, connections.to_string()]);
    }
    write!(output, "{table}")
}

/// Returns the number of each, the most first.
pub fn count(connections: &[Connection], by: CountBy) -> Vec<Count> {
    let mut counted: BTreeMap<String, u64> = BTreeMap::new();
    if by == CountBy::All {
        // None is a number, too.
        counted.insert("all".to_owned(), 0);
    }
    for connection in connections {
        *counted.entry(by.of(connection)).or_default() += 1;
    }
    let counted = counted.into_iter();
    let mut counted: Vec<_> = counted
        .map(|(of, connections)| Count { of, connections })
        .collect();
    counted.sort_by_key(|count| std::cmp::Reverse(count.connections));
    counted
}

#[cfg(test)]
mod tests {
    use shunt_api::view::{ConnectionState, End, ProtocolNumber};

    use super::*;

    fn connection(client: u8, port: u16, frontend: u16) -> Connection {
        let end = |ip: [u8; 4], port| End {
            ip: ip.into(),
            port,
        };
        Connection {
            protocol: ProtocolNumber(6),
            client: end([10, 1, 1, client], port),
            frontend: end([10, 96, 0, 10], frontend),
            backend: end([10, 1, 1, 3], 8080),
            state: ConnectionState::Established,
            idle_seconds: 0,
            snat_source: None,
        }
    }

    #[test]
    fn who_has_the_most_connections_comes_first() {
        let connections = [
            connection(5, 1000, 80),
            connection(6, 1000, 80),
            connection(6, 1001, 81),
        ];
        let of = |by| {
            let counted = count(&connections, by).into_iter();
            let counted: Vec<_> = counted
                .map(|count| format!("{} {}", count.of, count.connections))
                .collect();
            counted
        };
        assert_eq!(of(CountBy::All), ["all 3"]);
        assert_eq!(of(CountBy::Client), ["10.1.1.6 2", "10.1.1.5 1"]);
        assert_eq!(
            of(CountBy::Frontend),
            ["10.96.0.10:80/TCP 2", "10.96.0.10:81/TCP 1"]
        );
        assert_eq!(of(CountBy::State), ["ESTABLISHED 3"]);
        assert_eq!(count(&[], CountBy::All)[0].connections, 0);
    }
}
