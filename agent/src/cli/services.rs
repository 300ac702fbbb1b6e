//! `shunt services`: the frontends that are live.

use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use shunt_api::{
    proto::{ServicesRequest, ServicesResponse},
    view::{Difference, Frontend, FrontendKey},
};

use crate::cli::{
    client::{inspection, refused, understood, with_agent},
    flags::paths::SocketArgs,
    frontend_table::write_table,
    output::{self, OutputFormat, complain},
    service_table::write_counters,
};

/// So many differences are enough for a person.
const SHOWN: usize = 20;

/// Show the frontends that are live, as the kernel's tables have them
///
/// Where kernel and events differ, that is said on standard error, and in the field `difference`
/// of JSON: `unknown`, `changed`. What is counted of each service port, all its frontends together,
/// is a table of its own, and the field `counters` of JSON. Exit status: 0; 2 without an agent.
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
        let mut live: Vec<Frontend> = Vec::new();
        let mut differences: Vec<String> = Vec::new();
        while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
            let ServicesResponse { frontends, missing } = piece;
            for frontend in frontends {
                live.push(understood(frontend.try_into())?);
            }
            for key in missing {
                let key: FrontendKey = understood(key.try_into())?;
                differences.push(difference(key, Difference::Missing));
            }
        }
        let found = live
            .iter()
            .filter_map(|frontend| Some(difference(frontend.key, frontend.difference?)));
        differences.extend(found);
        output::print(|out| match output {
            OutputFormat::Table => {
                write_table(&live, out)?;
                write_counters(&live, out)
            }
            OutputFormat::Json => output::write_json(&live, out),
        })?;
        for text in differences.iter().take(SHOWN) {
            complain(format_args!("difference: {text}"));
        }
        if differences.len() > SHOWN {
            complain(format_args!(
                "and {} more differences",
                differences.len() - SHOWN
            ));
        }
        Ok(ExitCode::SUCCESS)
    })
}

/// A difference in words for people.
fn difference(key: FrontendKey, difference: Difference) -> String {
    let what = match difference {
        Difference::Changed => "is not in the kernel as the events lead to",
        Difference::Unknown => "is in the kernel, but no event leads to it",
        Difference::Missing => "is not in the kernel, but events lead to it",
    };
    format!("{key} {what}")
}
