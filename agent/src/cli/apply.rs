//! `shunt apply`: events for a running agent.

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use serde::Serialize;
use shunt_api::{
    message::encode,
    proto::{
        Applied, Refused, StreamRequest, Unreadable, stream_request::Event,
        stream_response::Result as Answer,
    },
};
use shunt_model::{Escaped, Line, LineError, LineFault};
use shunt_print::output::{self, OutputFormat, complain};
use shunt_source::{Input, read_lines};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::cli::{
    client::{self, NO_ANSWER, refused, with_agent},
    flags::paths::SocketArgs,
    steered::outcome,
};

/// An event was refused; the others were applied.
const REFUSED: u8 = 1;

/// Number of messages that may wait for the agent before the file is read on.
const AHEAD: usize = 4;

/// Number of lines that may wait for their answer before the file is read on. While the agent is busy, they pile up at
/// its end, and h2 ends a connection there with some thousands of unread small frames.
const UNANSWERED: usize = 256;

/// Have a running agent apply events
///
/// Prints what became of each. A line that is wrong has no effect, and the next is applied. Exit
/// status: 0; 1 if an event was refused; 2 without an agent, or if the file cannot be read.
#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// Events, one JSON object a line; - is standard input
    #[arg(value_name = "FILE")]
    events: Input,

    /// The form of the output; JSON is a line for each event
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    /// Have a Resync take effect beside a source of the agent's own (Kubernetes, Consul, registered services, a stream
    /// of events), which has the last word. What it removes comes back when the source changes it, or when the agent
    /// restarts
    #[arg(long)]
    over_source: bool,

    #[command(flatten)]
    socket: SocketArgs,
}

/// A line that was read, for which there is an answer to come.
enum Pending {
    /// It was sent.
    Sent {
        line: u64,
        /// The event's name and service.
        subject: String,
    },
    /// It was wrong.
    Bad(LineError),
}

/// Sends the events and prints the answers.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: ApplyArgs) -> Result<ExitCode> {
    let ApplyArgs {
        events,
        output,
        over_source,
        socket: SocketArgs { socket },
    } = args;
    with_agent(&socket, async |channel| {
        apply(&events, output, over_source, channel).await
    })
}

async fn apply(
    events: &Input,
    output: OutputFormat,
    over_source: bool,
    channel: Channel,
) -> Result<ExitCode> {
    let reader = events
        .open()
        .with_context(|| format!("cannot open the events in {events}"))?;
    let (lines, mut pending) = mpsc::channel(UNANSWERED);
    let (messages, outgoing) = mpsc::channel(AHEAD);
    read_lines(reader, move |line| {
        line.is_none_or(|line| send(line, over_source, &lines, &messages))
    })?;
    let mut answers = client::events(channel)
        .stream(ReceiverStream::new(outgoing))
        .await
        .map_err(|status| refused(&status))?
        .into_inner();
    let mut status = ExitCode::SUCCESS;
    while let Some(next) = pending.recv().await {
        let (line, subject) = match next {
            Pending::Sent { line, subject } => (line, subject),
            Pending::Bad(error) => {
                if matches!(error.fault, LineFault::Read(_)) {
                    complain(format_args!("error: {error}"));
                    return Ok(ExitCode::from(NO_ANSWER));
                }
                // The agent received it, for its status.
                let told = answers.message().await.map_err(|status| refused(&status))?;
                if told.is_none() {
                    bail!("the agent ended before it answered line {}", error.line);
                }
                refuse(error.line, &error.fault.to_string(), output)?;
                status = ExitCode::from(REFUSED);
                continue;
            }
        };
        let answer = answers.message().await.map_err(|status| refused(&status))?;
        match answer.and_then(|answer| answer.result) {
            Some(Answer::Applied(applied)) => {
                if !applied.refused.is_empty() {
                    status = ExitCode::from(REFUSED);
                }
                match output {
                    OutputFormat::Table => acknowledge(line, &subject, applied)?,
                    OutputFormat::Json => {
                        output::print(|out| {
                            output::write_json(&AppliedLine::of(line, &subject, applied), out)
                        })?;
                    }
                }
            }
            Some(Answer::Refused(Refused { code: _, reason })) => {
                refuse(line, &reason, output)?;
                status = ExitCode::from(REFUSED);
            }
            None => bail!("the agent ended before it answered line {line}"),
        }
    }
    Ok(status)
}

/// Sends the event of a line, and notes that there is an answer to come. Returns whether to read on.
fn send(
    line: Result<Line, LineError>,
    over_source: bool,
    lines: &mpsc::Sender<Pending>,
    messages: &mpsc::Sender<StreamRequest>,
) -> bool {
    match line {
        Ok(Line { number, event }) => {
            let noted = lines.blocking_send(Pending::Sent {
                line: number,
                subject: event.subject().to_string(),
            });
            let mut sent = encode(event).map(|message| with_over_source(message, over_source));
            noted.is_ok() && sent.all(|message| messages.blocking_send(message).is_ok())
        }
        Err(error) => {
            let told = match &error.fault {
                LineFault::Event(_) => Some(StreamRequest {
                    event: Some(Event::Unreadable(Unreadable {
                        reason: error.to_string(),
                    })),
                }),
                LineFault::Read(_) => None,
            };
            lines.blocking_send(Pending::Bad(error)).is_ok()
                && told.is_none_or(|told| messages.blocking_send(told).is_ok())
        }
    }
}

fn with_over_source(mut message: StreamRequest, over_source: bool) -> StreamRequest {
    if let Some(Event::Resync(piece)) = &mut message.event {
        piece.over_source = over_source;
    }
    message
}

/// Outcome of a line that was applied, for programs.
#[derive(Debug, Serialize)]
struct AppliedLine<'a> {
    line: u64,
    event: &'a str,
    /// `applied` or `held`.
    result: &'static str,
    added: u64,
    changed: u64,
    removed: u64,
    untranslated: u64,
    writes: u64,
    took_us: u64,
    conflicts: Vec<String>,
    refused: Vec<String>,
}

impl<'a> AppliedLine<'a> {
    fn of(line: u64, event: &'a str, applied: Applied) -> Self {
        let Applied {
            held,
            added,
            changed,
            removed,
            untranslated,
            writes,
            took_us,
            conflicts,
            refused,
        } = applied;
        Self {
            line,
            event,
            result: if held { "held" } else { "applied" },
            added,
            changed,
            removed,
            untranslated,
            writes,
            took_us,
            conflicts,
            refused,
        }
    }
}

/// Outcome of a line that was refused, for programs.
#[derive(Debug, Serialize)]
struct RefusedLine<'a> {
    line: u64,
    result: &'static str,
    reason: &'a str,
}

/// Reports that a line was refused: to people on standard error, to programs among the other lines.
fn refuse(line: u64, reason: &str, output: OutputFormat) -> io::Result<()> {
    match output {
        OutputFormat::Table => {
            complain(format_args!("error: line {line}: {reason}"));
            Ok(())
        }
        OutputFormat::Json => output::print(|out| {
            let refused = RefusedLine {
                line,
                result: "refused",
                reason,
            };
            output::write_json(&refused, out)
        }),
    }
}

/// Prints what the agent has logged.
fn acknowledge(line: u64, subject: &str, applied: Applied) -> io::Result<()> {
    let outcome = outcome(&applied);
    let Applied {
        held,
        untranslated,
        conflicts,
        refused,
        ..
    } = applied;
    let mut output = io::stdout().lock();
    if held {
        writeln!(
            output,
            "line {line}: {subject}: held until the first Resync"
        )?;
    } else {
        writeln!(output, "line {line}: {subject}: {outcome}")?;
    }
    for conflict in conflicts {
        writeln!(output, "line {line}: conflict: {}", Escaped(conflict))?;
    }
    for refused in refused {
        complain(format_args!("error: line {line}: {}", Escaped(refused)));
    }
    if untranslated > 0 {
        writeln!(
            output,
            "line {line}: {untranslated} frontends are not translated: their address family is not \
             among the agent's --ip-families"
        )?;
    }
    Ok(())
}
