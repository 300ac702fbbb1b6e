//! `shunt conntrack`: the connections that are remembered.

use std::{
    io::Write as _,
    net::{IpAddr, SocketAddr},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Args;
use serde::Serialize;
use shunt_api::proto::{self, ConntrackRequest, connection::Phase};

use crate::commands::{
    client::{inspection, refused, with_agent},
    listing::{parse_ip, protocol_name},
    options::SocketArgs,
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

/// A connection as it is shown. The order of the fields is the order in JSON.
#[derive(Debug, Serialize)]
struct Row {
    protocol: String,
    client: End,
    frontend: End,
    backend: End,
    phase: &'static str,
    idle_seconds: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct End {
    ip: IpAddr,
    port: u16,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        SocketAddr::new(self.ip, self.port).fmt(f)
    }
}

impl TryFrom<Option<proto::Endpoint>> for End {
    type Error = anyhow::Error;

    fn try_from(endpoint: Option<proto::Endpoint>) -> Result<Self> {
        let proto::Endpoint { ip, port } = endpoint.context("an end is not said")?;
        Ok(Self {
            ip: parse_ip(&ip)?,
            port: u16::try_from(port)?,
        })
    }
}

impl TryFrom<proto::Connection> for Row {
    type Error = anyhow::Error;

    fn try_from(connection: proto::Connection) -> Result<Self> {
        let phase = match connection.phase() {
            Phase::Unspecified => "unknown",
            Phase::Opening => "opening",
            Phase::Established => "established",
            Phase::Closing => "closing",
            Phase::Closed => "closed",
            Phase::TimeWait => "time_wait",
            Phase::OneWay => "one_way",
            Phase::Replied => "replied",
        };
        let proto::Connection {
            protocol,
            client,
            frontend,
            backend,
            phase: _,
            idle_seconds,
        } = connection;
        Ok(Self {
            protocol: protocol_name(protocol),
            client: client.try_into()?,
            frontend: frontend.try_into()?,
            backend: backend.try_into()?,
            phase,
            idle_seconds,
        })
    }
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
        let mut rows: Vec<Row> = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            for connection in piece.connections {
                rows.push(Row::try_from(connection).context("the agent answers nonsense")?);
            }
        }
        rows.sort_by(|a, b| {
            let order = |row: &Row| (row.frontend, row.client);
            order(a).cmp(&order(b)).then(a.protocol.cmp(&b.protocol))
        });
        output::print(|out| match output {
            OutputFormat::Json => output::write_json(&rows, out),
            OutputFormat::Table => write!(out, "{}", table(&rows)),
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

fn table(rows: &[Row]) -> Table<6> {
    let mut table = Table::new(["PROTOCOL", "CLIENT", "FRONTEND", "BACKEND", "PHASE", "IDLE"]);
    for row in rows {
        let Row {
            protocol,
            client,
            frontend,
            backend,
            phase,
            idle_seconds,
        } = row;
        table.push([
            protocol.clone(),
            client.to_string(),
            frontend.to_string(),
            backend.to_string(),
            (*phase).to_owned(),
            format!("{idle_seconds}s"),
        ]);
    }
    table
}
