//! `shunt dump`: all that a packet's way depends on, in a file.

use std::{
    fs::OpenOptions,
    io::{self, BufWriter, Write},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    process::ExitCode,
};

use anyhow::{Context as _, Result, anyhow};
use clap::Args;
use shunt_api::proto::DumpRequest;
use shunt_print::output::{causes, complain};
use shunt_trace::{Collector, Dump, Key, anonymous, write};
use tonic::transport::Channel;

use crate::cli::{
    client::{inspection, refused, with_agent},
    flags::paths::SocketArgs,
};

/// Write all that a packet's way depends on to a file
///
/// The programs' tables and settings, interfaces, routes, neighbours, and the frontends of the events: what
/// `shunt trace --dump FILE` needs, without root and on another machine. Exit status: 0; 1 if the file cannot be
/// written; 2 without an agent.
#[derive(Debug, Args)]
pub(crate) struct DumpArgs {
    /// Path of the file; - is standard output. A new file is readable by its owner alone
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// With other addresses and names in place of the node's: what begins alike still does, and a trace takes the
    /// same steps
    #[arg(long = "anonymous")]
    is_anonymous: bool,

    #[command(flatten)]
    socket: SocketArgs,
}

/// The file cannot be written.
const UNWRITTEN: u8 = 1;

/// Queries the agent and writes.
///
/// # Errors
///
/// If the command cannot even begin.
pub(crate) fn run(args: &DumpArgs) -> Result<ExitCode> {
    let DumpArgs {
        file,
        is_anonymous,
        socket: SocketArgs { socket },
    } = args;
    with_agent(socket, async |channel| {
        let mut dump = take(channel).await?;
        if *is_anonymous {
            dump = anonymous(&dump, &Key::random()?)?;
        }
        Ok(match save(&dump, file) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                let error =
                    anyhow::Error::from(error).context(format!("cannot write {}", file.display()));
                complain(format_args!("error: {}", causes(&error)));
                ExitCode::from(UNWRITTEN)
            }
        })
    })
}

/// The agent's dump.
///
/// # Errors
///
/// If it returns none, or none that makes sense.
pub(crate) async fn take(channel: Channel) -> Result<Dump> {
    let pieces = inspection(channel).dump(DumpRequest {}).await;
    let mut pieces = pieces.map_err(|status| refused(&status))?.into_inner();
    let mut collector = Collector::default();
    while let Some(piece) = pieces.message().await.map_err(|status| refused(&status))? {
        for line in piece.lines.split_inclusive(|byte| *byte == b'\n') {
            let line = line.strip_suffix(b"\n");
            let line = line.ok_or_else(|| anyhow!("the agent's dump has a line without an end"))?;
            collector.take(line)?;
        }
    }
    collector
        .finish()
        .context("the agent's answer is not whole")
}

fn save(dump: &Dump, file: &Path) -> io::Result<()> {
    if file == Path::new("-") {
        return write(dump, BufWriter::new(io::stdout().lock()));
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600);
    let mut to = BufWriter::new(options.open(file)?);
    write(dump, &mut to)?;
    to.flush()
}
