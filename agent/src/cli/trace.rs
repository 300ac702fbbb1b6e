//! `shunt trace`: what the node would do with a packet.

use std::{
    fs::File,
    io::Write,
    net::{IpAddr, SocketAddr},
    path::{Path, PathBuf},
    process::ExitCode,
    str::FromStr,
    sync::Arc,
};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use shunt_trace::{Dump, Flags, Part, Question, Trace, Transport, read, trace};

use crate::cli::{
    client::with_agent,
    dump::take,
    flags::paths::SocketArgs,
    output::{self, OutputFormat, causes, complain},
};

/// Say what this node would do with a packet now, step by step
///
/// On copies of the live tables, or of those in a dump: no connection is made, nothing is counted, no packet is sent.
/// Exit status: 0; 1 if there can be no such packet, or the dump cannot be read; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// From whom the packet is. Without a port, from 40000
    #[arg(long, value_name = "IP[:PORT]")]
    from: Sender,

    /// To where, and by which protocol: tcp, which is the default, udp or sctp
    #[arg(long, value_name = "IP:PORT[/PROTOCOL]")]
    to: Destination,

    /// The interface that it comes in by. Without one, that to which the route back to the sender leads; an address of
    /// the node is a process of the node
    #[arg(long, value_name = "NAME", conflicts_with = "process")]
    interface: Option<String>,

    /// Ask about the system call of a process at that address, not about a packet
    #[arg(long)]
    process: bool,

    /// The flags of a TCP segment: fin, syn, rst, psh, ack, urg, with commas between them
    #[arg(long, value_name = "FLAGS", default_value = "syn")]
    flags: Flags,

    /// How long the packet is, from its IP header on. Without it, as short as can be
    #[arg(long, value_name = "BYTES")]
    length: Option<u16>,

    /// Ask about so many packets, of differing source ports, one after the other: the steps are those of the first
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    count: u32,

    /// A dump to ask in place of an agent, as `shunt dump` writes it
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

/// The source port of packets for which none is asked.
const PORT: u16 = 40_000;

/// From whom.
#[derive(Debug, Clone, Copy)]
struct Sender {
    address: IpAddr,
    port: u16,
}

impl FromStr for Sender {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse() {
            return Ok(Self {
                address,
                port: PORT,
            });
        }
        let socket: SocketAddr = text.parse().map_err(
            |_| "an address belongs there, or one with a port: 10.1.1.5:40000, [fd00::5]:40000",
        )?;
        Ok(Self {
            address: socket.ip(),
            port: socket.port(),
        })
    }
}

/// To where.
#[derive(Debug, Clone, Copy)]
struct Destination {
    address: SocketAddr,
    protocol: Protocol,
}

#[derive(Debug, Clone, Copy)]
enum Protocol {
    Tcp,
    Udp,
    Sctp,
}

impl FromStr for Destination {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, protocol) = text.split_once('/').unwrap_or((text, "tcp"));
        Ok(Self {
            address: address.parse().map_err(
                |_| "an address with a port belongs there: 10.96.0.1:80, [fd00::1]:53/udp",
            )?,
            protocol: match protocol.to_ascii_lowercase().as_str() {
                "tcp" => Protocol::Tcp,
                "udp" => Protocol::Udp,
                "sctp" => Protocol::Sctp,
                other => return Err(format!("{other:?} is no protocol: tcp, udp and sctp are")),
            },
        })
    }
}

/// Asks and prints.
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
        transport: match to.protocol {
            Protocol::Tcp => Transport::Tcp(flags),
            Protocol::Udp => Transport::Udp,
            Protocol::Sctp => Transport::Sctp,
        },
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

/// The steps, a line each; those of a hook stand under it.
fn write(trace: &Trace, question: &Question, out: &mut impl Write) -> std::io::Result<()> {
    writeln!(out, "{}", trace.packet)?;
    for step in &trace.steps {
        let indent = if step.step.is_place() { "" } else { "  " };
        writeln!(out, "{indent}{}", step.text)?;
    }
    writeln!(out, "=> {}", trace.end)?;
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
            writeln!(out, "  {packets:>6}  {share:>5.1} %  {who}: {end}")?;
        }
    }
    for remark in &trace.remarks {
        writeln!(out, "note: {remark}")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn senders_and_destinations_are_written_as_usual() {
        for (text, address, port) in [
            ("10.1.1.5", "10.1.1.5", PORT),
            ("10.1.1.5:7", "10.1.1.5", 7),
            ("fd00::5", "fd00::5", PORT),
            ("[fd00::5]", "fd00::5", PORT),
            ("[fd00::5]:7", "fd00::5", 7),
        ] {
            let from: Sender = text.parse().unwrap();
            assert_eq!((from.address, from.port), (address.parse().unwrap(), port));
        }
        "10.1.1".parse::<Sender>().unwrap_err();
        let to: Destination = "[fd00::1]:53/UDP".parse().unwrap();
        assert!(matches!(to.protocol, Protocol::Udp));
        for text in ["10.96.0.1", "10.96.0.1:80/icmp", "10.96.0.1:x"] {
            text.parse::<Destination>().unwrap_err();
        }
    }
}
