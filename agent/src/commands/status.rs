//! `shunt status`: how the agent is.

mod view;

use std::{
    io::{self, Write},
    process::ExitCode,
};

use anyhow::{Context as _, Result};
use clap::Args;
use shunt_api::proto::StatusRequest;

use crate::commands::{
    client::{inspection, refused, with_agent},
    options::SocketArgs,
    output::{self, OutputFormat},
    status::view::{ConflictView, DifferenceView, InterfaceView, StatusView, TableView},
    table::Table,
};

/// So many conflicts and differences are enough for a person.
const SHOWN: usize = 20;

/// Show how the agent is: events, interfaces, conflicts, tables, counters
///
/// Exit status: 0; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
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
pub(crate) fn run(args: &StatusArgs) -> Result<ExitCode> {
    let StatusArgs {
        output,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        let response = inspection(channel)
            .status(StatusRequest {})
            .await
            .map_err(|status| refused(&status))?;
        let view =
            StatusView::try_from(response.into_inner()).context("the agent answers nonsense")?;
        output::print(|out| match output {
            OutputFormat::Json => output::write_json(&view, out),
            OutputFormat::Table => write_view(&view, out),
        })?;
        Ok(ExitCode::SUCCESS)
    })
}

fn write_view(view: &StatusView, output: &mut impl Write) -> io::Result<()> {
    write!(output, "{}", summary(view))?;
    let mut interfaces = Table::new(["INTERFACE", "STATE", "INDEX", "REASON"]);
    for interface in &view.interfaces {
        let InterfaceView {
            name,
            state,
            index,
            reason,
        } = interface;
        interfaces.push([
            name.clone(),
            (*state).to_owned(),
            index.map_or_else(|| "-".to_owned(), |index| index.to_string()),
            reason.clone().unwrap_or_default(),
        ]);
    }
    section(output, &interfaces)?;

    let mut conflicts = Table::new(["CONFLICT", "HELD BY", "WAITING"]);
    for conflict in view.conflicts.iter().take(SHOWN) {
        let ConflictView {
            frontend,
            holder,
            waiting,
        } = conflict;
        conflicts.push([frontend.clone(), holder.clone(), waiting.clone()]);
    }
    section(output, &conflicts)?;
    more(output, view.conflicts.len(), "conflicts")?;

    let mut differences = Table::new(["FRONTEND", "DIFFERENCE"]);
    for difference in view.differences.iter().take(SHOWN) {
        let DifferenceView {
            frontend,
            difference,
        } = difference;
        differences.push([frontend.clone(), (*difference).to_owned()]);
    }
    section(output, &differences)?;
    more(output, view.differences.len(), "differences")?;

    let mut tables = Table::new(["TABLE", "USED", "CAPACITY"]);
    for table in &view.tables {
        let TableView {
            name,
            used,
            capacity,
        } = table;
        tables.push([name.clone(), used.to_string(), capacity.to_string()]);
    }
    section(output, &tables)?;

    let mut counters = Table::new(["COUNTER", "PACKETS"]);
    for (name, packets) in &view.counters {
        counters.push([name.clone(), packets.to_string()]);
    }
    section(output, &counters)
}

/// What is one line each.
fn summary(view: &StatusView) -> Table<2> {
    let addresses = view.node_ips.iter().map(|ip| {
        if view.own_node_ips.contains(ip) {
            format!("{ip} (own)")
        } else {
            ip.clone()
        }
    });
    let addresses: Vec<String> = addresses.collect();
    let synced = match (view.synced, view.held) {
        (true, _) => "yes".to_owned(),
        (false, held) => format!("no: {held} events are held until the first Resync"),
    };
    let last_error = view.last_error.as_ref().map_or_else(
        || "-".to_owned(),
        |error| format!("{} ago: {}", duration(error.seconds_ago), error.text),
    );
    let pin_dir = view.pin_dir.as_deref().unwrap_or("- (nothing is pinned)");
    let events = format!("{} applied, {} refused", view.applied, view.refused);
    let lines = [
        ("version:", view.version.clone()),
        ("uptime:", duration(view.uptime_seconds)),
        ("pin dir:", pin_dir.to_owned()),
        ("synced:", synced),
        ("events:", events),
        ("last error:", last_error),
        ("node IPs:", addresses.join(", ")),
        ("untranslated:", format!("{} frontends", view.untranslated)),
        (
            "removed for room:",
            format!("{} connections", view.conntrack_removed_for_room),
        ),
    ];
    let mut table = Table::without_headings();
    for (name, value) in lines {
        table.push([name.to_owned(), value]);
    }
    table
}

/// A table with an empty line before it, if it has any row.
fn section<const N: usize>(output: &mut impl Write, table: &Table<N>) -> io::Result<()> {
    if table.is_empty() {
        return Ok(());
    }
    write!(output, "\n{table}")
}

fn more(output: &mut impl Write, there: usize, what: &str) -> io::Result<()> {
    if there > SHOWN {
        writeln!(output, "and {} more {what}", there - SHOWN)?;
    }
    Ok(())
}

/// Seconds for people: `2d 3h`, `4m 5s`.
fn duration(seconds: u64) -> String {
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if days > 0 => format!("{days}d {}h", hours % 24),
        () if hours > 0 => format!("{hours}h {}m", minutes % 60),
        () if minutes > 0 => format!("{minutes}m {}s", seconds % 60),
        () => format!("{seconds}s"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (61, "1m 1s"),
            (3_600, "1h 0m"),
            (90_000, "1d 1h"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }
}
