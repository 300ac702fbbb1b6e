//! The form of the log.

use clap::{Args, ValueEnum};
use tracing_subscriber::EnvFilter;

/// Form and filter of the log.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// The form of the log, on standard error
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,

    /// Filter of the log, as a level or by module: `debug`, or `info,shunt_datapath=debug`; RUST_LOG counts in its
    /// place [default: info]
    #[arg(long, value_name = "FILTER", value_parser = filter)]
    pub(crate) log_filter: Option<String>,
}

/// A text that is a filter.
fn filter(text: &str) -> Result<String, String> {
    let known = EnvFilter::try_new(text).map_err(|error| error.to_string());
    known.map(|_| text.to_owned())
}

/// A form of the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum LogFormat {
    /// A line of text for each event
    #[default]
    Text,
    /// An object of JSON on a line for each
    Json,
}
