//! The log, on standard error.

use std::{
    fmt,
    io::{self, IsTerminal as _},
};

use shunt_model::Escaped;
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    fmt::{
        FormatFields, MakeWriter,
        format::{DefaultFields, Writer},
    },
};

/// Begins to log, to standard error, what `filter` lets through.
pub(crate) fn start(filter: EnvFilter) {
    subscribe(filter, io::stderr, io::stderr().is_terminal());
}

fn subscribe<W: for<'w> MakeWriter<'w> + Send + Sync + 'static>(
    filter: EnvFilter,
    writer: W,
    ansi: bool,
) {
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .fmt_fields(EscapedFields(DefaultFields::new()))
        .with_writer(writer)
        .with_ansi(ansi)
        .with_target(false)
        .init();
}

/// The usual form of what is logged, with the text that others chose [escaped](Escaped): a line of
/// the log is one event, whatever a service is called.
struct EscapedFields(DefaultFields);

impl<'w> FormatFields<'w> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, mut writer: Writer<'w>, fields: R) -> fmt::Result {
        let mut text = String::new();
        // Without colours of its own, so that every escape sequence in it is foreign.
        self.0.format_fields(Writer::new(&mut text), fields)?;
        write!(writer, "{}", Escaped(text))
    }
}
