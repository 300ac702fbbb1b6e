//! The log, on standard error.

use std::{
    env::{self, VarError},
    fmt,
    io::{self, IsTerminal as _},
};

use anyhow::{Context as _, Result};
use shunt_model::Escaped;
use tracing_subscriber::{
    EnvFilter,
    field::RecordFields,
    fmt::{
        FormatFields, MakeWriter,
        format::{DefaultFields, Writer},
    },
};

use crate::cli::flags::logging::LogFormat;

/// The log of a program that follows an API server, by default: at the end of each watch, every five minutes or so, the
/// client library warns of an `eof in poll`.
pub(crate) const DEFAULT: &str = "info,kube_client::client=error";

/// Begins to log, to standard error, what `filter` lets through.
pub(crate) fn start(filter: EnvFilter) {
    start_in(LogFormat::Text, filter);
}

/// Starts the log as [`start`] does, in this form.
pub(crate) fn start_in(form: LogFormat, filter: EnvFilter) {
    match form {
        LogFormat::Text => subscribe(filter, io::stderr, io::stderr().is_terminal()),
        LogFormat::Json => tracing_subscriber::fmt()
            .json()
            .flatten_event(true)
            .with_current_span(false)
            .with_span_list(false)
            .with_env_filter(filter)
            .with_writer(io::stderr)
            .init(),
    }
}

/// Returns the filter of RUST_LOG, or else `default`.
///
/// # Errors
///
/// RUST_LOG is no filter: what it was to show would be missing.
pub(crate) fn filter(default: &str) -> Result<EnvFilter> {
    match env::var(EnvFilter::DEFAULT_ENV) {
        Ok(text) if !text.trim().is_empty() => EnvFilter::try_new(&text).with_context(|| {
            format!(
                "RUST_LOG=`{text}` is no filter of the log, such as `debug` or \
                 `info,shunt_datapath=debug`"
            )
        }),
        Ok(_) | Err(VarError::NotPresent) => Ok(EnvFilter::new(default)),
        Err(error @ VarError::NotUnicode(_)) => Err(error).context("RUST_LOG cannot be read"),
    }
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
