//! `shunt conntrack flush`: connections are forgotten.

use std::{io::Write as _, process::ExitCode};

use anyhow::Result;
use clap::Args;
use serde::Serialize;
use shunt_api::proto::{FlushConntrackRequest, FlushConntrackResponse};
use shunt_print::output::{self, OutputFormat, complain};

use crate::cli::{
    client::{control, refused, with_agent},
    conntrack::filter::FilterArgs,
    flags::paths::SocketArgs,
};

/// Exit status if there is neither a filter nor --all.
const NOT_SAID: u8 = 2;

/// Forget the connections that match all filters
///
/// The next packet of such a connection is as the first of a new one: a datagram finds a backend again; a
/// segment of TCP that is no SYN finds none that knows it, and the connection is reset or ends by its timeout,
/// unless the backend is found again that it had. Exit status: 0, also if there were none; 2 without an agent.
#[derive(Debug, Args)]
pub(super) struct FlushArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// Forget all connections
    #[arg(long)]
    all: bool,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

#[derive(Debug, Serialize)]
struct Flushed {
    flushed: u64,
}

/// Has the agent forget them, and prints how many these were.
pub(super) fn run(args: &FlushArgs) -> Result<ExitCode> {
    let FlushArgs {
        filter,
        all,
        output,
        socket: SocketArgs { socket },
    } = args;
    let filter = filter.filter();
    if filter.is_all() && !all {
        complain("error: a filter says which connections are meant, or --all that all are");
        return Ok(ExitCode::from(NOT_SAID));
    }
    with_agent(socket, async |channel| {
        let request = FlushConntrackRequest {
            filter: Some(filter.into()),
            all: *all,
        };
        let answer = control(channel).flush_conntrack(request).await;
        let answer = answer.map_err(|status| refused(&status))?.into_inner();
        let FlushConntrackResponse { flushed } = answer;
        output::print(|out| match output {
            OutputFormat::Json => output::write_json(&Flushed { flushed }, out),
            OutputFormat::Table => writeln!(out, "{flushed} connections were forgotten"),
        })?;
        Ok(ExitCode::SUCCESS)
    })
}
