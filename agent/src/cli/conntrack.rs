//! `shunt conntrack`: the connections that are remembered.

mod filter;
mod flush;

use std::{
    io::{BufWriter, StdoutLock, Write as _},
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, Subcommand};
use shunt_api::{
    proto::ConntrackRequest,
    view::{Connection, ConnectionFilter},
};
use shunt_print::{
    connection_counts::{CountBy, counts},
    connection_table::connection_table,
    output::{self, OutputFormat},
};
use tonic::transport::Channel;

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    conntrack::{filter::FilterArgs, flush::FlushArgs},
    flags::paths::SocketArgs,
    watch::WatchArgs,
};

/// Show the connections that the kernel programs remember
///
/// Sorted by frontend and client; the filters choose which. `shunt conntrack flush` forgets some. Exit
/// status: 0; 2 without an agent.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ConntrackArgs {
    #[command(subcommand)]
    command: Option<ConntrackCommand>,

    #[command(flatten)]
    filter: FilterArgs,

    /// Number of connections of each, the most first, in place of the connections
    #[arg(
        short,
        long,
        value_enum,
        value_name = "BY",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "all"
    )]
    count: Option<CountBy>,

    #[command(flatten)]
    watch: WatchArgs,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

#[derive(Debug, Subcommand)]
enum ConntrackCommand {
    Flush(FlushArgs),
}

/// Queries the agent and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &ConntrackArgs) -> Result<ExitCode> {
    let ConntrackArgs {
        command,
        filter,
        count,
        watch,
        output,
        socket: SocketArgs { socket },
    } = args;
    if let Some(ConntrackCommand::Flush(args)) = command {
        return flush::run(args);
    }
    let is_for_people = matches!(output, OutputFormat::Table);
    with_agent(socket, async |channel| {
        watch
            .follow(is_for_people, async || {
                let connections = ask(channel.clone(), filter.filter()).await?;
                Ok((
                    move |out: &mut BufWriter<StdoutLock<'static>>| match (count, output) {
                        (Some(by), _) => counts(&connections, *by, *output, out),
                        (None, OutputFormat::Json) => output::write_json(&connections, out),
                        (None, OutputFormat::Table) => {
                            write!(out, "{}", connection_table(&connections))
                        }
                    },
                    ExitCode::SUCCESS,
                ))
            })
            .await
    })
}

/// The connections that are meant, sorted.
async fn ask(channel: Channel, filter: ConnectionFilter) -> Result<Vec<Connection>> {
    let request = ConntrackRequest {
        filter: Some(filter.into()),
    };
    let mut pieces = inspection(channel)
        .conntrack(request)
        .await
        .map_err(|status| refused(&status))?
        .into_inner();
    let mut connections: Vec<Connection> = Vec::new();
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        for connection in piece.connections {
            connections.push(understood(connection.try_into())?);
        }
    }
    connections
        .sort_by_key(|connection| (connection.frontend, connection.client, connection.protocol));
    Ok(connections)
}
