//! The form of the log.

use clap::{Args, ValueEnum};

/// How the log is written.
#[derive(Debug, Clone, Copy, Args)]
#[command(next_help_heading = "Logging")]
pub(crate) struct LogArgs {
    /// The form of the log, on standard error
    #[arg(long, value_name = "FORM", value_enum, default_value_t)]
    pub(crate) log_format: LogFormat,
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
