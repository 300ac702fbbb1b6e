//! `shunt conntrack`: the connections that are remembered.

use std::{io::Write as _, process::ExitCode};

use anyhow::Result;
use clap::Args;
use shunt_api::{proto::ConntrackRequest, view::Connection};

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    output::{self, OutputFormat},
    table::Table,
};

/// Show the connections that the kernel programs remember
///
/// Sorted by frontend and client. Exit status: 0; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct ConntrackArgs {
    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Asks and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &ConntrackArgs) -> Result<ExitCode> {
    let ConntrackArgs {
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        let mut pieces = inspection(channel)
            .conntrack(ConntrackRequest {})
            .await
            .map_err(|status| refused(&status))?
            .into_inner();
        let mut connections: Vec<Connection> = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            for connection in piece.connections {
                connections.push(understood(connection.try_into())?);
            }
        }
        connections.sort_by_key(|connection| {
            (connection.frontend, connection.client, connection.protocol)
        });
        output::print(|out| match output {
            OutputFormat::Json => output::write_json(&connections, out),
            OutputFormat::Table => write!(out, "{}", table(&connections)),
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

fn table(connections: &[Connection]) -> Table<6> {
    let mut table = Table::new(["PROTOCOL", "CLIENT", "FRONTEND", "BACKEND", "STATE", "IDLE"]);
    for connection in connections {
        let Connection {
            protocol,
            client,
            frontend,
            backend,
            state,
            idle_seconds,
        } = connection;
        table.push([
            protocol.to_string(),
            client.to_string(),
            frontend.to_string(),
            backend.to_string(),
            state.to_string(),
            format!("{idle_seconds}s"),
        ]);
    }
    table
}
