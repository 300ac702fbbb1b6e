//! `kubectl shunt status`: a row for each node.

use std::{io::Write, process::ExitCode};

use anyhow::Result;
use clap::Args;
use shunt_api::{
    MESSAGE_LIMIT,
    proto::{StatusRequest, inspection_client::InspectionClient},
    view::Status,
};
use shunt_model::Escaped;
use shunt_print::{
    output::{self, OutputFormat},
    table::Table,
};

use crate::{
    commands::exit::exit_status,
    fleet::Fleet,
    node_status::{HEADINGS, Health, Row, rows},
    print::write_lines,
};

/// Show how all nodes are, the worst first, and what is not right there
///
/// Exit status: 0; 1 if a node is not right or does not answer; 2 if the API server does not answer, or there is no
/// agent.
#[derive(Debug, Args)]
pub(super) struct StatusArgs {
    /// The form of the output; JSON is a line for each node
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,
}

/// Asks all nodes and prints.
///
/// # Errors
///
/// The output cannot be written.
pub(super) async fn run(args: &StatusArgs, fleet: &Fleet) -> Result<ExitCode> {
    let StatusArgs { output } = args;
    let heard = fleet
        .ask(async |channel| {
            let mut client =
                InspectionClient::new(channel).max_decoding_message_size(MESSAGE_LIMIT);
            let status = client.status(StatusRequest { brief: false }).await?;
            Ok(Status::try_from(status.into_inner())?)
        })
        .await;
    let rows = rows(&heard);
    output::print(|out| match output {
        OutputFormat::Json => write_lines(&heard, out, std::slice::from_ref),
        OutputFormat::Table => write_rows(&rows, out),
    })?;
    Ok(exit_status(
        rows.iter().all(|row| row.health == Health::Right),
    ))
}

/// Writes the rows, and below them what is not right.
fn write_rows(rows: &[Row], out: &mut impl Write) -> std::io::Result<()> {
    let mut table = Table::new(HEADINGS);
    for Row { cells, .. } in rows {
        table.push(cells.clone());
    }
    write!(out, "{table}")?;
    let problems = rows.iter().flat_map(|row| {
        let node = &row.cells[0];
        row.problems
            .iter()
            .map(move |problem| format!("{node}: {problem}"))
    });
    for (number, problem) in problems.enumerate() {
        if number == 0 {
            writeln!(out)?;
        }
        writeln!(out, "{}", Escaped(problem))?;
    }
    Ok(())
}
