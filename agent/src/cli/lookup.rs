//! `shunt lookup`: who is behind an address.

mod asked;
mod found;
mod tables;
mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use shunt_api::{
    message::join_lookup,
    proto::{LookupRequest, LookupResponse, ServiceId},
};
use shunt_model::{Query, Subject};
use tonic::transport::Channel;

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    lookup::{asked::Asked, found::Found, tables::write_found, watch::watch},
    output::{self, OutputFormat},
};

/// Nothing is there.
const NOT_FOUND: u8 = 1;

/// Show what is behind an address or a service: its owner, the endpoints behind it, the services it is behind
///
/// Exit status: 0; 1 if nothing is there, as far as is known; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct LookupArgs {
    /// 10.96.0.10, 10.96.0.10:80, 10.96.0.10:53/udp, fd00::1, [fd00::1]:80, or a service with its
    /// namespace: default/web, default/web:80, default/web:53/udp
    #[arg(value_name = "ADDRESS[:PORT][/PROTOCOL]|NAMESPACE/NAME[:PORT][/PROTOCOL]")]
    target: Asked,

    /// Follow it: first all there is, then what is new
    #[arg(short, long)]
    watch: bool,

    /// The form of the output; with --watch, JSON is a line for each change
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Queries the agent and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &LookupArgs) -> Result<ExitCode> {
    let LookupArgs {
        target: Asked(target),
        watch: follows,
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        if *follows {
            watch(channel, request(target), *output).await
        } else {
            look_up(channel, request(target), *output).await
        }
    })
}

/// The question as a message.
fn request(query: &Query) -> LookupRequest {
    let Query {
        subject,
        port,
        protocol,
    } = query;
    let (ip, service) = match subject {
        Subject::Address(address) => (address.to_string(), None),
        Subject::Service(id) => {
            let service = ServiceId {
                namespace: id.namespace.to_string(),
                name: id.name.to_string(),
            };
            (String::new(), Some(service))
        }
    };
    LookupRequest {
        ip,
        port: port.map(|port| port.get().into()),
        protocol: protocol.map_or(0, |protocol| protocol.number().into()),
        service,
    }
}

async fn look_up(
    channel: Channel,
    request: LookupRequest,
    output: OutputFormat,
) -> Result<ExitCode> {
    let asked = inspection(channel).lookup(request).await;
    let mut pieces = asked.map_err(|status| refused(&status))?.into_inner();
    let mut response = LookupResponse::default();
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        join_lookup(&mut response, piece);
    }
    let found = understood(Found::try_from(response))?;
    output::print(|out| match output {
        OutputFormat::Json => output::write_json(&found, out),
        OutputFormat::Table => write_found(&found, out),
    })?;
    Ok(if found.is_something() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_FOUND)
    })
}
