//! `shunt lookup`: who is behind an address.

mod watch;

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use shunt_api::{
    message::join_lookup,
    proto::{LookupRequest, LookupResponse},
};
use shunt_print::{
    asked::Asked,
    found::Found,
    lookup_tables::write_found,
    output::{self, OutputFormat},
};
use tonic::transport::Channel;

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    lookup::watch::watch,
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
        target,
        watch: follows,
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        if *follows {
            watch(channel, target.request(), *output).await
        } else {
            look_up(channel, target.request(), *output).await
        }
    })
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
