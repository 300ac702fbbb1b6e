//! `shunt services`: the frontends that are live.

use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;
use shunt_api::proto::{ServicesRequest, ServicesResponse};

use crate::commands::{
    client::{inspection, refused, with_agent},
    listing::{Row, live_key, write_table},
    options::SocketArgs,
    output::{self, OutputFormat},
};

/// So many remarks are enough for a person.
const SHOWN: usize = 20;

/// Show the frontends that are live, as the kernel's tables have them
///
/// Where kernel and events differ, that is said on standard error, and in the field `difference`
/// of JSON: `unknown`, `changed`. Exit status: 0; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct ServicesArgs {
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
pub(crate) fn run(args: &ServicesArgs) -> Result<ExitCode> {
    let ServicesArgs {
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        let mut pieces = inspection(channel)
            .services(ServicesRequest {})
            .await
            .map_err(|status| refused(&status))?
            .into_inner();
        let mut rows: Vec<Row> = Vec::new();
        let mut notes: Vec<String> = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            let ServicesResponse { frontends, missing } = piece;
            for frontend in frontends {
                rows.push(Row::try_from(frontend).context("the agent answers nonsense")?);
            }
            for key in missing {
                let key = live_key(Some(key)).context("the agent answers nonsense")?;
                notes.push(format!("{key} is not in the kernel, but events lead to it"));
            }
        }
        notes.extend(rows.iter().filter_map(Row::note));
        output::print(|out| match output {
            OutputFormat::Table => write_table(&rows, out),
            OutputFormat::Json => output::write_json(&rows, out),
        })?;
        for note in notes.iter().take(SHOWN) {
            eprintln!("difference: {note}");
        }
        if notes.len() > SHOWN {
            eprintln!("and {} more differences", notes.len() - SHOWN);
        }
        Ok(ExitCode::SUCCESS)
    })
}
