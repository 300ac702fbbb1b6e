//! Connections as a table for people.

use shunt_api::view::Connection;

use crate::table::Table;

/// Returns a line for each connection.
pub fn connection_table(connections: &[Connection]) -> Table<7> {
    let mut table = Table::new([
        "PROTOCOL",
        "CLIENT",
        "FRONTEND",
        "BACKEND",
        "SNAT SOURCE",
        "STATE",
        "IDLE",
    ]);
    for connection in connections {
        let Connection {
            protocol,
            client,
            frontend,
            backend,
            state,
            idle_seconds,
            snat_source,
        } = connection;
        table.push([
            protocol.to_string(),
            client.to_string(),
            frontend.to_string(),
            backend.to_string(),
            snat_source.map_or_else(|| "-".to_owned(), |source| source.to_string()),
            state.to_string(),
            format!("{idle_seconds}s"),
        ]);
    }
    table
}
