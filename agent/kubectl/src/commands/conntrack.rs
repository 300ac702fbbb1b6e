//! `kubectl shunt conntrack`: the connections of each node.

use std::{io::Write as _, process::ExitCode};

use anyhow::Result;
use clap::Args;
use shunt_api::{
    MESSAGE_LIMIT,
    proto::{ConntrackRequest, inspection_client::InspectionClient},
    view::{Connection, ConnectionFilter, ConnectionState, Place},
};
use shunt_print::{
    connection_counts::{CountBy, count, counts},
    connection_table::connection_table,
    duration::Seconds,
    output::{self, OutputFormat},
    transport::Transport,
};
use tonic::transport::Channel;

use crate::{
    commands::{exit::exit_status, resolve::resolve_if_named},
    fleet::Fleet,
    place::Named,
    print::{are_complete, write_error, write_line, write_lines, write_nodes},
    tunnel::Fault,
};

/// Show the connections that the kernel programs remember, node by node
///
/// Exit status: 0; 1 if a node does not answer; 2 if the API server does not answer, or there is no agent.
#[derive(Debug, Args)]
pub(super) struct ConntrackArgs {
    /// Filter by client: 10.1.1.5, 10.1.0.0/16, [fd00::1]:4711, pod/NAMESPACE/NAME
    #[arg(long, value_name = "PLACE")]
    client: Option<Named<Place>>,

    /// Filter by frontend: 10.96.0.10:80, or all ports of an address
    #[arg(long, value_name = "PLACE")]
    frontend: Option<Named<Place>>,

    /// Filter by backend: as a client
    #[arg(long, value_name = "PLACE")]
    backend: Option<Named<Place>>,

    /// Filter by protocol
    #[arg(long, value_enum, value_name = "PROTOCOL", ignore_case = true)]
    protocol: Option<Transport>,

    /// Filter by state, by the name that is shown; may be given several times
    #[arg(long, value_name = "STATE", value_parser = state)]
    state: Vec<ConnectionState>,

    /// Filter by idle time: neither side has sent a packet for so long, or longer: 30s, 2m
    #[arg(long, value_name = "TIME")]
    idle: Option<Seconds>,

    /// Number of connections of each on its node, the most first, in place of the connections
    #[arg(short, long, value_enum, value_name = "BY", num_args = 0..=1, require_equals = true, default_missing_value = "all")]
    count: Option<CountBy>,

    /// The form of the output; JSON is a line for each connection or count
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Reads a state by its name.
fn state(text: &str) -> Result<ConnectionState, String> {
    let mut all = ConnectionState::ALL.into_iter();
    all.find(|state| state.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| {
            let names = ConnectionState::ALL.map(ConnectionState::name);
            format!("the states are {}", names.join(", "))
        })
}

impl ConntrackArgs {
    /// Returns a filter for each combination of addresses that is meant.
    async fn filters(&self, fleet: &Fleet) -> Result<Vec<ConnectionFilter>> {
        let clients = resolve_if_named(fleet, self.client.as_ref()).await?;
        let frontends = resolve_if_named(fleet, self.frontend.as_ref()).await?;
        let backends = resolve_if_named(fleet, self.backend.as_ref()).await?;
        let mut filters = Vec::new();
        for client in &clients {
            for frontend in &frontends {
                for backend in &backends {
                    filters.push(ConnectionFilter {
                        client: *client,
                        frontend: *frontend,
                        backend: *backend,
                        protocol: self.protocol.map(|it| it.protocol().into()),
                        states: self.state.clone(),
                        idle_seconds: self.idle.map_or(0, |Seconds(seconds)| seconds),
                    });
                }
            }
        }
        Ok(filters)
    }
}

/// Asks all nodes and prints.
///
/// # Errors
///
/// The output cannot be written, or a pod cannot be found.
pub(super) async fn run(args: &ConntrackArgs, fleet: &Fleet) -> Result<ExitCode> {
    let filters = args.filters(fleet).await?;
    let heard = fleet
        .ask(move |channel| ask(channel, filters.clone()))
        .await;
    output::print(|out| match (args.count, args.output) {
        (None, OutputFormat::Json) => write_lines(&heard, out, Vec::as_slice),
        (None, OutputFormat::Table) => write_nodes(&heard, out, |connections, out| {
            write!(out, "{}", connection_table(connections))
        }),
        (Some(by), form @ OutputFormat::Table) => write_nodes(&heard, out, |connections, out| {
            counts(connections, by, form, out)
        }),
        (Some(by), OutputFormat::Json) => heard.iter().try_for_each(|heard| {
            let node = &heard.member.node;
            match &heard.answer {
                Ok(connections) => count(connections, by)
                    .iter()
                    .try_for_each(|count| write_line(node, count, out)),
                Err(reason) => write_error(node, reason, out),
            }
        }),
    })?;
    Ok(exit_status(are_complete(&heard)))
}

async fn ask(channel: Channel, filters: Vec<ConnectionFilter>) -> Result<Vec<Connection>, Fault> {
    let mut client = InspectionClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
    let mut connections = Vec::new();
    for filter in filters {
        let request = ConntrackRequest {
            filter: Some(filter.into()),
        };
        let mut pieces = client.conntrack(request).await?.into_inner();
        while let Some(piece) = pieces.message().await? {
            for connection in piece.connections {
                connections.push(Connection::try_from(connection)?);
            }
        }
    }
    connections
        .sort_by_key(|connection| (connection.frontend, connection.client, connection.protocol));
    Ok(connections)
}
