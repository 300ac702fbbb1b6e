//! `shunt trace`: what the node would do with a packet.

use std::{
    fs::File,
    io::Write,
    path::{Path, PathBuf},
    process::ExitCode,
    sync::Arc,
};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use shunt_model::Escaped;
use shunt_print::output::{self, OutputFormat, causes, complain};
use shunt_trace::{Destination, Dump, Flags, Part, Question, Sender, Trace, read, trace};

use crate::cli::{client::with_agent, dump::take, flags::paths::SocketArgs};

/// Show what this node would do with a packet now, step by step
///
/// On copies of the live tables, or of those in a dump: no connection is made, nothing is counted, no packet is sent.
/// Exit status: 0; 1 if there can be no such packet, or the dump cannot be read; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Sender of the packet. Without a port, from 40000
    #[arg(long, value_name = "IP[:PORT]")]
    from: Sender,

    /// Destination of the packet, and its protocol: tcp, which is the default, udp or sctp
    #[arg(long, value_name = "IP:PORT[/PROTOCOL]")]
    to: Destination,

    /// The interface that it comes in by. Without one, that to which the route back to the sender leads; an address of
    /// the node is a process of the node
    #[arg(long, value_name = "NAME", conflicts_with = "process")]
    interface: Option<String>,

    /// Trace the system call of a process at that address, not a packet
    #[arg(long)]
    process: bool,

    /// The flags of a TCP segment: fin, syn, rst, psh, ack, urg, with commas between them
    #[arg(long, value_name = "FLAGS", default_value = "syn")]
    flags: Flags,

    /// Length of the packet, from its IP header on. Without it, as short as can be
    #[arg(long, value_name = "BYTES")]
    length: Option<u16>,

    /// Trace so many packets, of differing source ports, one after the other: the steps are those of the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,

    /// Dump to use in place of an agent, as `shunt dump` writes it
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,

    /// The form of the output
    #[arg(short, long, value_enum, default_value_t)]
    output: OutputFormat,

    #[command(flatten)]
    socket: SocketArgs,
}

/// There can be no such packet, or no such dump.
const NOTHING: u8 = 1;

/// Queries the agent and prints.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: TraceArgs) -> Result<ExitCode> {
    let TraceArgs {
        from,
        to,
        interface,
        process,
        flags,
        length,
        count,
        dump,
        output,
        socket: SocketArgs { socket },
    } = args;
    let question = Question {
        from: from.address,
        from_port: from.port,
        to: to.address,
        transport: to.transport(flags),
        interface,
        by_socket: process,
        length,
        count,
    };
    if let Some(file) = dump {
        return Ok(or_nothing(
            open(&file).and_then(|dump| answer(dump, &question, output)),
        ));
    }
    with_agent(&socket, async |channel| {
        let dump = take(channel).await?;
        Ok(or_nothing(answer(dump, &question, output)))
    })
}

fn or_nothing(done: Result<()>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(format_args!("error: {}", causes(&error)));
            ExitCode::from(NOTHING)
        }
    }
}

fn open(file: &Path) -> Result<Dump> {
    let cannot = || format!("cannot read {}", file.display());
    read(File::open(file).with_context(cannot)?).with_context(cannot)
}

fn answer(dump: Dump, question: &Question, output: OutputFormat) -> Result<()> {
    let trace = trace(&Arc::new(dump), question).map_err(|error| anyhow!(error))?;
    output::print(|out| match output {
        OutputFormat::Json => output::write_json(&trace, out),
        OutputFormat::Table => write(&trace, question, out),
    })?;
    Ok(())
}

/// The steps, a line each; those of a hook stand under it. Names are those of a dump that anyone may have written.
fn write(trace: &Trace, question: &Question, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", Escaped(&trace.packet))?;
    for step in &trace.steps {
        let indent = if step.step.is_place() { "" } else { "  " };
        writeln!(out, "{indent}{}", Escaped(&step.text))?;
    }
    writeln!(out, "=> {}", Escaped(&trace.end))?;
    if !trace.distribution.is_empty() {
        writeln!(out, "\nOf {} packets:", question.count)?;
        for Part {
            backend,
            end,
            packets,
        } in &trace.distribution
        {
            let share = f64::from(*packets) / f64::from(question.count) * 100.0;
            let who =
                backend.map_or_else(|| "no backend".to_owned(), |backend| backend.to_string());
            writeln!(
                out,
                "  {packets:>6}  {share:>5.1} %  {who}: {}",
                Escaped(end)
            )?;
        }
    }
    for remark in &trace.remarks {
        writeln!(out, "note: {}", Escaped(remark))?;
    }
    Ok(())
}
