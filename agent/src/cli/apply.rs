//! `shunt apply`: events for a running agent.

use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    process::ExitCode,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use clap::Args;
use shunt::{Input, Outcome, read_lines};
use shunt_api::{
    message::encode,
    proto::{Applied, Refused, StreamRequest, stream_response::Result as Answer},
};
use shunt_model::{Escaped, Line, LineError, LineFault};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;

use crate::cli::{
    client::{self, NO_ANSWER, refused, with_agent},
    flags::paths::SocketArgs,
    output::complain,
};

/// An event was refused; the others were applied.
const REFUSED: u8 = 1;

/// How many messages wait for the agent before the file is read on.
const AHEAD: usize = 4;

/// How many lines wait for their answer before the file is read on. While the agent is busy, they
/// pile up at its end, and h2 ends a connection there with some thousands of unread small frames.
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
        socket: SocketArgs { socket },
    } = args;
    with_agent(&socket, async |channel| apply(&events, channel).await)
}

async fn apply(events: &Input, channel: Channel) -> Result<ExitCode> {
    let reader = events
        .open()
        .with_context(|| format!("cannot open the events in {events}"))?;
    let (lines, mut pending) = mpsc::channel(UNANSWERED);
    let (messages, outgoing) = mpsc::channel(AHEAD);
    read_lines(reader, move |line| {
        line.is_none_or(|line| send(line, &lines, &messages))
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
                complain(format_args!("error: {error}"));
                if matches!(error.fault, LineFault::Read(_)) {
                    return Ok(ExitCode::from(NO_ANSWER));
                }
                status = ExitCode::from(REFUSED);
                continue;
            }
        };
        let answer = answers.message().await.map_err(|status| refused(&status))?;
        match answer.and_then(|answer| answer.result) {
            Some(Answer::Applied(applied)) => acknowledge(line, &subject, applied)?,
            Some(Answer::Refused(Refused { code: _, reason })) => {
                complain(format_args!("error: line {line}: {reason}"));
                status = ExitCode::from(REFUSED);
            }
            None => bail!("the agent ended before it answered line {line}"),
        }
    }
    Ok(status)
}

/// Sends what a line says, and notes that there is an answer to come. Whether to read on.
fn send(
    line: Result<Line, LineError>,
    lines: &mpsc::Sender<Pending>,
    messages: &mpsc::Sender<StreamRequest>,
) -> bool {
    match line {
        Ok(Line { number, event }) => {
            let noted = lines.blocking_send(Pending::Sent {
                line: number,
                subject: event.subject(),
            });
            noted.is_ok() && encode(event).all(|message| messages.blocking_send(message).is_ok())
        }
        Err(error) => lines.blocking_send(Pending::Bad(error)).is_ok(),
    }
}

/// Prints what the agent has logged.
fn acknowledge(line: u64, subject: &str, applied: Applied) -> io::Result<()> {
    let Applied {
        held,
        added,
        changed,
        removed,
        untranslated,
        writes,
        took_us,
        conflicts,
    } = applied;
    let outcome = Outcome {
        added: added as usize,
        changed: changed as usize,
        removed: removed as usize,
        untranslated: untranslated as usize,
        writes,
        conflicts: Vec::new(),
        left_out: BTreeSet::new(),
        took: Duration::from_micros(took_us),
    };
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
    if untranslated > 0 {
        writeln!(
            output,
            "line {line}: {untranslated} frontends are not translated: their address family is not \
             among the agent's --ip-families"
        )?;
    }
    Ok(())
}
