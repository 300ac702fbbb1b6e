//! `shunt monitor`: what becomes of connections and packets, as it happens.

pub(crate) mod events;
mod filter;
mod pcapng;

use std::{
    io::{self, Write},
    num::NonZeroU64,
    process::ExitCode,
};

use anyhow::Result;
use clap::{Args, ValueEnum};
use serde::Serialize;
use shunt_api::{proto::MonitorRequest, view::FlowEvent};
use shunt_model::Escaped;
use shunt_print::{
    event_line::event_line,
    output::{complain, print_while_read, write_json},
};

use crate::cli::{
    client::with_agent,
    flags::paths::SocketArgs,
    monitor::{events::Events, filter::FilterArgs},
};

/// Show what becomes of connections and packets, as it happens
///
/// Connections that are opened and that end, packets that are refused and dropped, and why. The kernel programs report
/// it only while a client watches; docs/monitor.md has the cost of that. What was lost is counted and shown. Exit
/// status: 0; 2 without an agent, or if it ends.
#[derive(Debug, Args)]
pub(crate) struct MonitorArgs {
    #[command(flatten)]
    filter: FilterArgs,

    /// Show one connection in so many, with all of its events, and one packet in so many
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    sample: u32,

    /// End after so many events
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<NonZeroU64>,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: EventFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// Form of the events.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
enum EventFormat {
    /// A line each
    #[default]
    Line,
    /// A JSON object a line, for programs
    Json,
    /// Refused and dropped packets, their first 128 bytes each, as a capture file
    Pcapng,
}

/// Watches and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &MonitorArgs) -> Result<ExitCode> {
    let MonitorArgs {
        filter,
        sample,
        count,
        output,
        socket: SocketArgs { socket },
    } = args;
    let is_capture = *output == EventFormat::Pcapng;
    with_agent(socket, async |channel| {
        let request = MonitorRequest {
            filter: Some(filter.filter(is_capture).into()),
            sample: *sample,
            packets: is_capture,
        };
        let mut events = Events::ask(channel, request).await?;
        let mut printer = Printer {
            form: *output,
            left: count.map(NonZeroU64::get),
            lost: 0,
        };
        if is_capture && !print_while_read(pcapng::begin)? {
            return Ok(ExitCode::SUCCESS);
        }
        loop {
            let (told, lost) = events.next().await?;
            if !printer.print(&told, lost)? {
                return Ok(ExitCode::SUCCESS);
            }
        }
    })
}

/// Form of the output, and the number of events that are left.
struct Printer {
    form: EventFormat,
    left: Option<u64>,
    lost: u64,
}

#[derive(Serialize)]
struct Lost {
    lost: u64,
}

impl Printer {
    /// Prints these, and that so many were lost since the begin. Returns whether more is to be printed.
    fn print(&mut self, events: &[FlowEvent], lost: u64) -> io::Result<bool> {
        let wanted = self.left.map_or(events.len(), |left| {
            usize::try_from(left).map_or(events.len(), |left| left.min(events.len()))
        });
        let events = &events[..wanted];
        if let Some(left) = &mut self.left {
            *left -= events.len() as u64;
        }
        let form = self.form;
        let more = lost.saturating_sub(self.lost);
        self.lost = lost;
        let is_read = print_while_read(|out| {
            for event in events {
                match form {
                    EventFormat::Line => writeln!(out, "{}", Escaped(event_line(event)))?,
                    EventFormat::Json => write_json(event, out)?,
                    EventFormat::Pcapng => pcapng::packet(event, out)?,
                }
            }
            match form {
                EventFormat::Line if more > 0 => writeln!(out, "{more} events were lost"),
                EventFormat::Json if more > 0 => write_json(&Lost { lost }, out),
                _ => Ok(()),
            }
        })?;
        if form == EventFormat::Pcapng && more > 0 {
            complain(format_args!("{more} events were lost"));
        }
        Ok(is_read && self.left != Some(0))
    }
}
