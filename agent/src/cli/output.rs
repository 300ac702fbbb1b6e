//! Output in the forms that the commands have in common.

use std::io::{self, BufWriter, ErrorKind, Write};

use clap::ValueEnum;
use serde::Serialize;

/// How something is printed.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Aligned columns
    #[default]
    Table,
    /// JSON on one line, for programs
    Json,
}

/// Writes to standard output. Whoever reads it may have seen enough before the end.
pub(crate) fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> io::Result<()> {
    let mut output = BufWriter::new(io::stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result,
    }
}

/// Writes JSON and a line feed.
pub(crate) fn write_json(value: &impl Serialize, output: &mut impl Write) -> io::Result<()> {
    serde_json::to_writer(&mut *output, value)?;
    writeln!(output)
}
